// SPDX-License-Identifier: GPL-2.0-only
/*
 * The FUSE side. One thread: all work is on one collector, under its lock. What a file says is made
 * when it is opened, and belongs to the open file.
 */
#define FUSE_USE_VERSION 35
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <fuse_log.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timefmt.h"
#include "core/util.h"
#include "files/config.h"
#include "files/files.h"
#include "files/tree.h"
#include "outputs/histo.h"
#include "outputs/json.h"

#define FILESYSTEM "fuse.blkhist"
/* How often the devices of the machine are looked at for what comes and goes. */
#define REFRESH_NS 1000000000ll
/* How long the kernel need not ask again for names, and for what stat() says. */
#define NAME_SECONDS 1
/* A ladder has no more text than this. */
#define LADDER_WRITE_MAX 4096

struct open_file {
	char *path; /* owned */
	struct node node;
	struct buf content;
	bool reset; /* it was written to */
	struct open_file *next;
};

struct server {
	const struct files_settings *settings;
	struct live *live; /* NULL: none, as far as is known */
	struct device_list devices;
	int64_t refreshed; /* CLOCK_MONOTONIC of the last look at the devices */
	struct open_file *files;
	int64_t error_time; /* CLOCK_REALTIME, 0: none yet */
	char *error;
};

static struct server *server(void)
{
	return fuse_get_context()->private_data;
}

/* --- the collector --- */

static void forget(struct server *s)
{
	live_close(s->live);
	s->live = NULL;
}

static struct error *look_at_devices(struct server *s)
{
	struct device_list devices;

	try(device_list_read(s->settings->paths->root, &devices));
	device_list_deinit(&s->devices);
	s->devices = devices;
	return NULL;
}

/* Opens or resumes the collector, with the lock; s->live is NULL if none is running. */
static struct error *acquire(struct server *s)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	bool current = false;

	if (s->live)
		try(live_resume(s->live, &current));
	if (!current) {
		forget(s);
		if (!pins_exist(s->settings->paths))
			return NULL;
		try(look_at_devices(s));
		try(live_open(s->settings->paths, &s->devices, &s->live));
		s->refreshed = now;
	} else if (now - s->refreshed > REFRESH_NS) {
		s->refreshed = now;
		try(look_at_devices(s));
		try(live_refresh(s->live, &s->devices));
	}
	return NULL;
}

static void release(struct server *s)
{
	if (s->live)
		live_suspend(s->live);
}

/* --- errors --- */

/* What was written may be anything: nothing of it is to look like a line of ours. */
static char *printable(const char *text)
{
	cleanup(buf_deinit) struct buf out = {};

	for (; *text; text++) {
		if (*text >= ' ' && *text <= '~')
			buf_add(&out, text, 1);
		else
			buf_printf(&out, "\\x%02x", (unsigned char)*text);
	}
	return take(out.str);
}

/* Notes an error for the log and for `status`, and gives what the caller is told. */
static int refuse(struct server *s, const char *path, struct error *err, int errnum)
{
	cleanup_free char *text = xasprintf("%s: %s", path, err->message);
	cleanup_free char *line = printable(text);

	s->settings->log(line);
	free(s->error);
	s->error = take(line);
	s->error_time = clock_ns(CLOCK_REALTIME);
	error_free(err);
	release(s);
	return -errnum;
}

static int failed(struct server *s, const char *path, struct error *err)
{
	return refuse(s, path, err, EIO);
}

/* --- nodes --- */

static bool is_there(const struct server *s, const struct node *n)
{
	return n->type < NODE_DEVICE || n->type > NODE_BUCKETS ||
	       device_is_there(s->settings->paths->root, &n->device);
}

static bool find_now(struct server *s, const char *path, struct node *ret)
{
	struct tree tree = { s->settings->paths->root, &s->devices, s->live };

	return tree_find(&tree, path, ret) && is_there(s, ret);
}

/*
 * The node of a path, without the lock: looks at the devices again only if what is known of them
 * does not fit. An error is negative, as FUSE wants it.
 */
static int find(struct server *s, const char *path, struct node *ret)
{
	struct error *err = NULL;

	if (!s->live || !live_is_current(s->live)) {
		err = acquire(s);
		if (err)
			return failed(s, path, err);
		release(s);
	}
	if (find_now(s, path, ret))
		return 0;
	err = look_at_devices(s);
	if (err)
		return failed(s, path, err);
	return find_now(s, path, ret) ? 0 : -ENOENT;
}

static void fill_stat(struct server *s, const char *path, const struct node *n, struct stat *st)
{
	*st = (struct stat){
		.st_mode = node_is_directory(n) ? S_IFDIR | 0555 :
			   node_is_writable(n)  ? S_IFREG | 0644 :
						  S_IFREG | 0444,
		.st_nlink = 1, /* of directories: it is not said how many others they have */
	};
	clock_gettime(CLOCK_REALTIME, &st->st_mtim);
	st->st_atim = st->st_ctim = st->st_mtim;
	/* While it is open its size is known, of several the largest: tail -f would call less cut
	 * off. */
	for (const struct open_file *f = s->files; f && !node_is_directory(n); f = f->next)
		if (!strcmp(f->path, path) && (off_t)f->content.len > st->st_size)
			st->st_size = (off_t)f->content.len;
}

static int op_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	struct server *s = server();
	struct node n;
	int ret = find(s, path, &n);

	(void)fi;
	if (!ret)
		fill_stat(s, path, &n, st);
	return ret;
}

/* So that what is gone is an error: one of the listing itself is taken for the end of an empty one.
 */
static int op_opendir(const char *path, struct fuse_file_info *fi)
{
	struct node n;

	(void)fi;
	return find(server(), path, &n);
}

struct listing {
	void *buf;
	fuse_fill_dir_t fill;
};

static void list_entry(void *context, const char *name)
{
	const struct listing *l = context;

	/* What does not fit any more is beyond help: libfuse has no memory. */
	(void)l->fill(l->buf, name, NULL, 0, 0);
}

static int op_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	struct server *s = server();
	struct tree tree = { s->settings->paths->root, &s->devices, NULL };
	struct listing listing = { buf, fill };
	struct node n;
	struct error *err = look_at_devices(s);
	int ret;

	(void)offset, (void)fi, (void)flags;
	if (err)
		return failed(s, path, err);
	ret = find(s, path, &n);
	if (ret)
		return ret;
	list_entry(&listing, ".");
	list_entry(&listing, "..");
	tree.live = s->live;
	tree_list(&tree, &n, list_entry, &listing);
	return 0;
}

/* --- what files say --- */

/* Just the one histogram. */
static struct live_selection select_histo(const struct node *n, const struct device *const *device)
{
	return (struct live_selection){
		.devices = device,
		.n_devices = 1,
		.kinds = 1u << n->kind,
		.ops = 1u << n->op,
		.alone = true,
	};
}

static struct error *histo_content(struct server *s, const struct node *n, struct buf *out)
{
	const struct device *device = &n->device;
	struct live_selection selection = select_histo(n, &device);
	cleanup(snapshot_deinit) struct snapshot snap = {};

	selection.empty = true;
	try(live_read(s->live, &s->devices, &selection, &snap));
	if (snap.n_hists != 1)
		return error_new("the device is gone");
	histo_table(&snap.hists[0], out);
	return NULL;
}

static struct error *buckets_content(struct server *s, const struct node *n, struct buf *out)
{
	struct ladder ladders[LADDER_KINDS];
	cleanup_free char *text = NULL;

	try(live_ladders(s->live, &n->device, ladders));
	text = ladder_format(&ladders[n->dim]);
	buf_puts(out, text);
	buf_puts(out, "\n");
	return NULL;
}

static struct error *all_content(struct server *s, struct buf *out)
{
	const struct live_selection all = { .kinds = KINDS_ALL, .ops = OPS_ALL };
	cleanup(snapshot_deinit) struct snapshot snap = {};

	try(live_read(s->live, &s->devices, &all, &snap));
	json_snapshot(&snap, out);
	return NULL;
}

static struct error *status_content(struct server *s, struct buf *out)
{
	if (s->live)
		try(s->settings->status(s->live, &s->devices, out));
	else
		buf_puts(out, "not running: start it with: blkhist start\n");
	if (s->error_time) {
		char when[RFC3339_MAX];

		time_format_seconds(s->error_time, when);
		buf_printf(out, "last error: %s %s\n", when, s->error);
	}
	return NULL;
}

static struct error *config_content(struct server *s, struct buf *out)
{
	struct live_status status;

	try(live_status(s->live, &s->devices, &status));
	config_text(&status, out);
	return NULL;
}

static struct error *content(struct server *s, const struct node *n, struct buf *out)
{
	switch (n->type) {
	case NODE_HISTO:
		return histo_content(s, n, out);
	case NODE_BUCKETS:
		return buckets_content(s, n, out);
	case NODE_ALL_JSON:
		return all_content(s, out);
	case NODE_STATUS:
		return status_content(s, out);
	case NODE_CONFIG:
		return config_content(s, out);
	case NODE_ROOT:
	case NODE_DEVICE:
		break;
	}
	return NULL;
}

static int op_open(const char *path, struct fuse_file_info *fi)
{
	struct server *s = server();
	struct open_file *f;
	struct error *err;
	struct node n;
	int ret = find(s, path, &n);

	if (ret)
		return ret;
	/* Root is not kept from it by the mode. */
	if (!node_is_writable(&n) && (fi->flags & O_ACCMODE) != O_RDONLY)
		return -EACCES;
	err = acquire(s);
	f = xcalloc(1, sizeof(*f));
	if (!err && (fi->flags & O_ACCMODE) != O_WRONLY && (s->live || n.type == NODE_STATUS))
		err = content(s, &n, &f->content);
	if (err) {
		buf_deinit(&f->content);
		free(f);
		return is_there(s, &n) ? failed(s, path, err) : refuse(s, path, err, ENODEV);
	}
	release(s);
	f->path = xstrdup(path);
	f->node = n;
	f->next = s->files;
	s->files = f;
	fi->fh = (uint64_t)(uintptr_t)f;
	/* Its size is not known to the kernel, and nothing is to be kept. */
	fi->direct_io = 1;
	return 0;
}

static struct open_file *file_of(const struct fuse_file_info *fi)
{
	return (struct open_file *)(uintptr_t)fi->fh;
}

static void close_file(struct server *s, struct open_file *f)
{
	struct open_file **link = &s->files;

	while (*link != f)
		link = &(*link)->next;
	*link = f->next;
	buf_deinit(&f->content);
	free(f->path);
	free(f);
}

static int op_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	close_file(server(), file_of(fi));
	return 0;
}

static int op_read(const char *path, char *buf, size_t size, off_t offset,
		   struct fuse_file_info *fi)
{
	const struct buf *content = &file_of(fi)->content;

	(void)path;
	if (offset < 0 || (size_t)offset >= content->len)
		return 0;
	if (size > content->len - (size_t)offset)
		size = content->len - (size_t)offset;
	memcpy(buf, content->str + offset, size);
	return (int)size;
}

/* --- writing --- */

static struct error *reset(struct server *s, const struct node *n)
{
	const struct device *device = &n->device;
	const struct live_selection selection = select_histo(n, &device);

	return live_reset(s->live, &s->devices, &selection, NULL);
}

/* The bytes of one write. */
static struct error *parse_buckets(const struct node *n, const char *text, size_t len,
				   struct ladder *ret)
{
	cleanup_free char *spec = NULL;

	if (n->type != NODE_BUCKETS)
		return NULL;
	if (len > LADDER_WRITE_MAX)
		return error_new("%zu bytes are no ladder", len);
	if (memchr(text, '\0', len))
		return error_new("a ladder has no NUL in it");
	if (text[len - 1] == '\n')
		len--;
	spec = xasprintf("%.*s", (int)len, text);
	return ladder_parse(n->dim, spec, ret);
}

static struct error *set_buckets(struct server *s, const struct node *n,
				 const struct ladder *ladder)
{
	const struct ladder *ladders[LADDER_KINDS] = {};

	ladders[n->dim] = ladder;
	return live_set_ladders(s->live, &s->devices, &n->device, ladders);
}

static int op_write(const char *path, const char *buf, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct open_file *f = file_of(fi);
	struct server *s = server();
	struct ladder ladder;
	struct error *err;

	(void)offset;
	if (!size)
		return 0;
	/* Another device may have the name by now. */
	if (!is_there(s, &f->node))
		return -ENODEV;
	/* However many pieces a write comes in, it is one reset. */
	if (f->node.type == NODE_HISTO && f->reset)
		return (int)size;
	err = parse_buckets(&f->node, buf, size, &ladder);
	if (err)
		return refuse(s, path, err, EINVAL);
	err = acquire(s);
	if (!err && !s->live)
		err = error_new("the collector is not running");
	if (!err)
		err = f->node.type == NODE_HISTO ? reset(s, &f->node) :
						   set_buckets(s, &f->node, &ladder);
	if (err)
		return refuse(s, path, err, is_there(s, &f->node) ? EIO : ENODEV);
	release(s);
	f->reset = true;
	return (int)size;
}

/* `>` empties a file before it writes: that alone changes nothing. */
static int op_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	struct node n;
	int ret = find(server(), path, &n);

	(void)fi;
	if (ret)
		return ret;
	return size || !node_is_writable(&n) ? -EPERM : 0;
}

/* --- what the tree does not do --- */

static int no_mode(const char *path, mode_t mode)
{
	(void)path, (void)mode;
	return -EPERM;
}

static int no_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)path, (void)mode, (void)fi;
	return -EPERM;
}

static int no_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)path, (void)uid, (void)gid, (void)fi;
	return -EPERM;
}

static int no_path(const char *path)
{
	(void)path;
	return -EPERM;
}

static int no_paths(const char *from, const char *to)
{
	(void)from, (void)to;
	return -EPERM;
}

static int no_rename(const char *from, const char *to, unsigned int flags)
{
	(void)from, (void)to, (void)flags;
	return -EPERM;
}

static int no_mknod(const char *path, mode_t mode, dev_t device)
{
	(void)path, (void)mode, (void)device;
	return -EPERM;
}

static int no_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *fi)
{
	(void)path, (void)times, (void)fi;
	return -EPERM;
}

static void *op_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	/*
	 * A name that the kernel keeps for a moment may be of a device that has gone: opening asks
	 * us in any case. What is not there may be there the next time.
	 */
	config->entry_timeout = NAME_SECONDS;
	config->attr_timeout = NAME_SECONDS;
	config->negative_timeout = 0;
	return server();
}

static const struct fuse_operations operations = {
	.init = op_init,
	.getattr = op_getattr,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.open = op_open,
	.release = op_release,
	.read = op_read,
	.write = op_write,
	.truncate = op_truncate,
	.mkdir = no_mode,
	.rmdir = no_path,
	.unlink = no_path,
	.symlink = no_paths,
	.link = no_paths,
	.rename = no_rename,
	.mknod = no_mknod,
	.chmod = no_chmod,
	.chown = no_chown,
	.utimens = no_utimens,
};

/* --- mounting --- */

/* libfuse says what is wrong only in its log, a line of which may come in pieces. */
static char fuse_said[256];

static void listen_to_fuse(enum fuse_log_level level, const char *fmt, va_list ap)
{
	size_t len = strlen(fuse_said);

	(void)level;
	vsnprintf(fuse_said + len, sizeof(fuse_said) - len, fmt, ap);
	for (char *p = fuse_said; (p = strchr(p, '\n'));)
		*p = ' ';
}

static const char *what_fuse_said(void)
{
	return fuse_said[0] ? fuse_said : "libfuse does not say why";
}

/*
 * For an ordinary user libfuse runs fusermount3, which says on standard error what is wrong; that
 * is taken into our sentence.
 */
static bool mount_quietly(struct fuse *fuse, const char *dir)
{
	cleanup_close int stderr_fd = dup(STDERR_FILENO),
			  heard = memfd_create("fusermount3", MFD_CLOEXEC);
	char text[sizeof(fuse_said)] = "";
	bool ok;

	if (stderr_fd < 0 || heard < 0 || dup2(heard, STDERR_FILENO) < 0)
		return !fuse_mount(fuse, dir);
	ok = !fuse_mount(fuse, dir);
	dup2(stderr_fd, STDERR_FILENO);
	if (!ok && pread(heard, text, sizeof(text) - 1, 0) > 0) {
		text[strcspn(text, "\n")] = '\0';
		memcpy(fuse_said, text, sizeof(text));
	}
	return ok;
}

/* In mountinfo blanks and the like are octal: \040. In place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

bool files_mounted(const char *dir, bool *dead)
{
	cleanup_fclose FILE *f = fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	size_t size = 0;
	struct statfs st;
	bool found = false;

	/* ID PARENT MAJOR:MINOR ROOT DIR OPTIONS [OPTIONAL...] - TYPE SOURCE OPTIONS */
	while (f && getline(&line, &size, f) > 0) {
		char *save, *at = line, *type = strstr(line, " - ");

		for (int i = 0; at && i < 5; i++)
			at = strtok_r(i ? NULL : line, " ", &save);
		if (!type || !at)
			continue;
		unescape(at);
		if (strcmp(at, dir))
			continue;
		type += strlen(" - ");
		/* The last one that is mounted there is what is seen. */
		found = !strncmp(type, FILESYSTEM " ", strlen(FILESYSTEM) + 1);
	}
	/* stat() may be answered from what the kernel still remembers. */
	*dead = found && statfs(dir, &st) && errno == ENOTCONN;
	return found;
}

/* As an ordinary user, with the help of libfuse's program. */
static struct error *unmount_by_helper(const char *dir)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return error_errno(errno, "cannot unmount %s", dir);
	if (!child) {
		execlp("fusermount3", "fusermount3", "-u", "-q", "--", dir, (char *)NULL);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child || status)
		return error_new("cannot unmount %s: it is in use, or was mounted by another user",
				 dir);
	return NULL;
}

struct error *files_unmount(const char *dir)
{
	bool dead;

	if (!files_mounted(dir, &dead))
		return error_new("cannot unmount %s: no tree of blkhist is mounted there", dir);
	/* Our own working directory may be in it. */
	if (chdir("/"))
		return error_errno(errno, "cannot unmount %s", dir);
	if (!umount2(dir, UMOUNT_NOFOLLOW | (dead ? MNT_DETACH : 0)))
		return NULL;
	if (errno == EPERM)
		return unmount_by_helper(dir);
	if (errno == EBUSY)
		return error_new(
			"cannot unmount %s: files in it are open, or it is somebody's working "
			"directory; see: fuser -m %s",
			dir, dir);
	return error_errno(errno, "cannot unmount %s", dir);
}

static void fuse_destroyp(struct fuse **fuse)
{
	if (*fuse)
		fuse_destroy(*fuse);
}

static void args_free(struct fuse_args *args)
{
	fuse_opt_free_args(args);
}

static void server_deinit(struct server *s)
{
	/* A signal ends it with files open. */
	while (s->files)
		close_file(s, s->files);
	forget(s);
	device_list_deinit(&s->devices);
	free(s->error);
}

static struct error *arguments(const struct files_settings *settings, struct fuse_args *args)
{
	if (fuse_opt_add_arg(args, "blkhist") || fuse_opt_add_arg(args, "-o") ||
	    fuse_opt_add_arg(args, "default_permissions,fsname=blkhist,subtype=blkhist"))
		return error_errno(ENOMEM, "cannot mount %s", settings->dir);
	if (settings->options && *settings->options &&
	    (fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, settings->options)))
		return error_errno(ENOMEM, "cannot mount %s", settings->dir);
	return NULL;
}

/* What is in a directory would be hidden. */
static struct error *check_empty(const char *dir)
{
	cleanup_closedir DIR *d = opendir(dir);
	const struct dirent *entry;

	if (!d)
		return error_errno(errno, "cannot mount at %s", dir);
	while ((entry = readdir(d)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return error_new("cannot mount at %s: the directory is not empty", dir);
	return NULL;
}

static struct error *clear_dead(const char *dir)
{
	bool dead;

	if (!files_mounted(dir, &dead))
		return NULL;
	if (!dead)
		return error_new("a tree of blkhist is mounted at %s already", dir);
	return files_unmount(dir);
}

/* The directory is locked meanwhile, so that of several at once one finds it free. */
static struct error *mount_tree(struct fuse *fuse, const char *dir)
{
	cleanup_close int lock = -1;

	try(clear_dead(dir));
	lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX))
		return error_errno(errno, "cannot mount at %s", dir);
	try(clear_dead(dir));
	try(check_empty(dir));
	if (!mount_quietly(fuse, dir))
		return error_new("cannot mount at %s: %s", dir, what_fuse_said());
	return NULL;
}

struct error *files_serve(const struct files_settings *settings)
{
	cleanup(server_deinit) struct server s = { .settings = settings };
	cleanup(args_free) struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	cleanup(fuse_destroyp) struct fuse *fuse = NULL;
	struct fuse_session *session;
	struct error *err;
	int ret;

	fuse_set_log_func(listen_to_fuse);
	try(arguments(settings, &args));
	fuse = fuse_new(&args, &operations, sizeof(operations), &s);
	if (!fuse)
		return error_usage("cannot mount at %s: %s", settings->dir, what_fuse_said());
	try(mount_tree(fuse, settings->dir));
	err = settings->start(settings->context);
	session = fuse_get_session(fuse);
	if (!err && (fuse_daemonize(settings->foreground) || fuse_set_signal_handlers(session)))
		err = error_errno(errno, "cannot serve %s", settings->dir);
	if (err) {
		fuse_unmount(fuse);
		return err;
	}
	ret = fuse_loop(fuse);
	fuse_remove_signal_handlers(session);
	fuse_unmount(fuse);
	/* A signal ends it just as unmounting does. */
	return ret < 0 ? error_errno(-ret, "cannot serve %s any longer", settings->dir) : NULL;
}
