// SPDX-License-Identifier: GPL-2.0-only
#include "bench/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/undo.h"
#include "core/buf.h"
#include "core/util.h"

/* A message is a sign, the kind as a letter, the argument and a newline. */
#define KIND_FIRST 'a'

struct undo_list {
	char **items; /* messages without the sign */
	size_t n;
};

struct guard {
	pid_t pid;
	int to;   /* messages; its end is the sign to undo */
	int from; /* what could not be undone, as text */
	struct undo_list list;
};

/* The last one that is equal; list->n if there is none. */
static size_t list_find(const struct undo_list *list, const char *item)
{
	for (size_t i = list->n; i-- > 0;)
		if (!strcmp(list->items[i], item))
			return i;
	return list->n;
}

static void list_add(struct undo_list *list, const char *item)
{
	list->items = xreallocarray(list->items, list->n + 1, sizeof(char *));
	list->items[list->n++] = xstrdup(item);
}

static void list_remove(struct undo_list *list, const char *item)
{
	size_t i = list_find(list, item);

	if (i == list->n)
		return;
	free(list->items[i]);
	memmove(&list->items[i], &list->items[i + 1], (--list->n - i) * sizeof(char *));
}

static struct error *item_undo(const char *item)
{
	return undo((enum undo_kind)(*item - KIND_FIRST), item + 1);
}

/* --- the process --- */

static void list_read(struct undo_list *list, int from)
{
	cleanup(buf_deinit) struct buf in = {};
	char *newline;
	ssize_t n;

	for (;;) {
		n = read(from, buf_reserve(&in, PIPE_BUF), PIPE_BUF);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		in.len += (size_t)n;
		in.str[in.len] = '\0';
		while ((newline = strchr(in.str, '\n'))) {
			*newline = '\0';
			(*in.str == '+' ? list_add : list_remove)(list, in.str + 1);
			in.len -= (size_t)(newline + 1 - in.str);
			memmove(in.str, newline + 1, in.len + 1);
		}
	}
}

/* It has a session of its own: what ends the others at the terminal is not for it. */
static void guard_main(int from, int to)
{
	struct undo_list list = {};
	sigset_t all;

	setsid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	if (chdir("/"))
		_exit(1);
	list_read(&list, from);
	while (list.n--) {
		struct error *err = item_undo(list.items[list.n]);

		/* Nobody may be there to read it. */
		if (err && write(to, err->message, strlen(err->message)) > 0)
			(void)!write(to, "\n", 1);
		error_free(err);
	}
	_exit(0);
}

/* --- its client --- */

struct error *guard_start(struct guard **ret)
{
	int to[2], from[2];
	struct guard *g;
	pid_t pid;

	if (pipe2(to, O_CLOEXEC))
		return error_errno(errno, "cannot make a pipe");
	if (pipe2(from, O_CLOEXEC)) {
		close(to[0]), close(to[1]);
		return error_errno(errno, "cannot make a pipe");
	}
	pid = fork();
	if (!pid) {
		close(to[1]), close(from[0]);
		guard_main(to[0], from[1]);
	}
	close(to[0]), close(from[1]);
	if (pid < 0) {
		close(to[1]), close(from[0]);
		return error_errno(errno, "cannot start a process");
	}
	g = xcalloc(1, sizeof(*g));
	*g = (struct guard){ .pid = pid, .to = to[1], .from = from[0] };
	*ret = g;
	return NULL;
}

static struct error *tell(struct guard *g, char sign, const char *item)
{
	cleanup_free char *message = xasprintf("%c%s\n", sign, item);
	size_t len = strlen(message);

	/* One write is one message, whoever else is writing, up to this length. */
	if (len > PIPE_BUF || strchr(item, '\n'))
		return error_new("the path '%s' is too long, or has a newline in it", item + 1);
	if (write(g->to, message, len) != (ssize_t)len)
		return error_errno(errno, "cannot reach the process that is to undo all");
	return NULL;
}

#define ITEM(kind, fmt)                                            \
	({                                                         \
		va_list ap_;                                       \
		va_start(ap_, fmt);                                \
		cleanup_free char *arg_ = xvasprintf(fmt, ap_);    \
		va_end(ap_);                                       \
		xasprintf("%c%s", KIND_FIRST + (int)(kind), arg_); \
	})

struct error *guard_add(struct guard *g, enum undo_kind kind, const char *fmt, ...)
{
	cleanup_free char *item = ITEM(kind, fmt);

	try(tell(g, '+', item));
	list_add(&g->list, item);
	return NULL;
}

void guard_note(struct guard *g, enum undo_kind kind, const char *fmt, ...)
{
	cleanup_free char *item = ITEM(kind, fmt);

	list_add(&g->list, item);
}

struct error *guard_forget(struct guard *g, enum undo_kind kind, const char *fmt, ...)
{
	cleanup_free char *item = ITEM(kind, fmt);

	list_remove(&g->list, item);
	return tell(g, '-', item);
}

struct error *guard_undo(struct guard *g, enum undo_kind kind, const char *fmt, ...)
{
	cleanup_free char *item = ITEM(kind, fmt);

	if (list_find(&g->list, item) == g->list.n)
		return NULL;
	list_remove(&g->list, item);
	try(item_undo(item));
	return tell(g, '-', item);
}

size_t guard_mark(const struct guard *g)
{
	return g->list.n;
}

struct error *guard_undo_to(struct guard *g, size_t mark)
{
	struct error *first = NULL, *err;

	while (g->list.n > mark) {
		cleanup_free char *item = g->list.items[--g->list.n];

		err = item_undo(item);
		/* What failed is left to the process, which tries again at the end. */
		if (!err)
			error_free(tell(g, '-', item));
		if (first)
			error_free(err);
		else
			first = err;
	}
	return first;
}

struct error *guard_end(struct guard *g)
{
	cleanup(buf_deinit) struct buf text = {};
	struct error *err;
	int status = -1;
	ssize_t n;

	if (!g)
		return NULL;
	/* Here first: the process is needed if this one dies, and may itself have been killed. */
	err = guard_undo_to(g, 0);
	close(g->to);
	do {
		n = read(g->from, buf_reserve(&text, PIPE_BUF), PIPE_BUF);
		if (n > 0)
			text.len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	close(g->from);
	while (waitpid(g->pid, &status, 0) < 0 && errno == EINTR)
		;
	free(g->list.items);
	free(g);
	if (!text.len && status)
		return err;
	error_free(err); /* it has tried again */
	if (!text.len)
		return NULL;
	text.str[text.len] = '\0';
	text.str[strcspn(text.str, "\n")] = '\0';
	return error_new("%s", text.str);
}

void guard_endp(struct guard **g)
{
	error_free(guard_end(*g));
	*g = NULL;
}
