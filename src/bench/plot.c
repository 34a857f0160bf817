// SPDX-License-Identifier: GPL-2.0-only
/* Costs as SVG: a dot for each round, a bar for each interval; one panel for each metric. */
#include <math.h>
#include <string.h>

#include "bench/result.h"
#include "core/util.h"

/* In pixels */
#define LEFT 240
#define WIDTH 560
#define RIGHT 300
#define ROW 34
#define HEAD 56
#define FOOT 30

struct panel {
	enum metric metric;
	double low, high; /* costs at its edges, in shares */
	unsigned int top;
};

static void text(struct buf *out, double x, double y, const char *anchor, const char *s)
{
	buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	for (; *s; s++)
		if (*s == '<')
			buf_puts(out, "&lt;");
		else if (*s == '&')
			buf_puts(out, "&amp;");
		else
			buf_add(out, s, 1);
	buf_puts(out, "</text>\n");
}

static double position(const struct panel *p, double cost)
{
	return LEFT + WIDTH * (cost - p->low) / (p->high - p->low);
}

static void line(struct buf *out, double x1, double x2, double y1, double y2, const char *style)
{
	buf_printf(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, x2, y1,
		   y2, style);
}

static void grow(struct panel *p, double cost)
{
	p->low = fmin(p->low, cost);
	p->high = fmax(p->high, cost);
}

/* The edges: all that is to be seen, 0, and a little more. */
static void measure(const struct result *r, struct panel *p)
{
	for (unsigned int i = 1; i < r->n_observers; i++) {
		cleanup(analysis_deinit) struct analysis a = {};

		result_analyse(r, p->metric, i, &a);
		for (unsigned int k = 0; k < a.n; k++)
			grow(p, a.costs[k]);
		if (a.has_interval)
			grow(p, a.interval.low), grow(p, a.interval.high);
	}
	p->low -= (p->high - p->low) * 0.04 + 0.002;
	p->high += (p->high - p->low) * 0.04 + 0.002;
}

static void axis(const struct panel *p, unsigned int rows, struct buf *out)
{
	double bottom = p->top + HEAD + rows * ROW;
	/* 1, 2 or 5 of a power of ten, so that there are five to twelve lines */
	double step = pow(10, floor(log10((p->high - p->low) / 5)));

	step *= (p->high - p->low) / step > 24 ? 5 : (p->high - p->low) / step > 12 ? 2 : 1;
	for (double at = ceil(p->low / step) * step; at <= p->high; at += step) {
		cleanup_free char *label = xasprintf("%.3g %%", fabs(at) < step / 2 ? 0 : at * 100);

		line(out, position(p, at), position(p, at), p->top + HEAD, bottom,
		     fabs(at) < step / 2 ? "stroke=\"#444\"" : "stroke=\"#ddd\"");
		text(out, position(p, at), bottom + 16, "middle", label);
	}
}

static void row(const struct panel *p, const struct analysis *a, double y, struct buf *out)
{
	cleanup(buf_deinit) struct buf words = {};

	for (unsigned int k = 0; k < a->n; k++)
		buf_printf(
			out,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#36c\" fill-opacity=\"0.4\"/>\n",
			position(p, a->costs[k]), y - 5);
	if (!a->has_interval)
		return;
	line(out, position(p, a->interval.low), position(p, a->interval.high), y + 6, y + 6,
	     "stroke=\"#c33\" stroke-width=\"3\"");
	line(out, position(p, a->interval.estimate), position(p, a->interval.estimate), y + 1,
	     y + 11, "stroke=\"#c33\" stroke-width=\"2\"");
	verdict(&a->interval, &words);
	text(out, LEFT + WIDTH + 8, y + 4, "start", words.str);
}

void result_plot(const struct result *r, struct buf *out)
{
	unsigned int rows = 0, height, y;

	for (unsigned int i = 1; i < r->n_observers; i++)
		rows += !r->observers[i].reason;
	height = HEAD + rows * ROW + FOOT;
	buf_printf(out,
		   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
		   "font-family=\"sans-serif\" font-size=\"12\">\n"
		   "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		   LEFT + WIDTH + RIGHT, height * METRIC_NR);
	for (enum metric m = 0; m < METRIC_NR; m++) {
		struct panel p = { .metric = m, .top = m * height };
		cleanup_free char *head = xasprintf("%s: %s, cost compared with %s", r->workload,
						    result_unit(r, m), r->observers[0].name);

		measure(r, &p);
		text(out, 8, p.top + 20, "start", head);
		text(out, 8, p.top + 38, "start",
		     "a dot for each round; bars: intervals of 95 % (Wilcoxon's signed-rank test)");
		axis(&p, rows, out);
		y = p.top + HEAD + ROW / 2;
		for (unsigned int i = 1; i < r->n_observers; i++) {
			cleanup(analysis_deinit) struct analysis a = {};

			if (r->observers[i].reason)
				continue;
			result_analyse(r, m, i, &a);
			text(out, LEFT - 8, y + 4, "end", r->observers[i].name);
			row(&p, &a, y, out);
			y += ROW;
		}
	}
	buf_puts(out, "</svg>\n");
}
