// SPDX-License-Identifier: GPL-2.0-only
/* Events of several CPUs, put in order. */
#include "unit.h"

#include "core/util.h"
#include "record/order.h"

struct seen {
	uint64_t last_ns, until_ns, sum;
	uint64_t n;
};

static struct error *see(void *context, const struct rec_event *event)
{
	struct seen *seen = context;

	assert_true(event->time >= seen->last_ns);
	assert_true(event->time < seen->until_ns);
	seen->last_ns = event->time;
	seen->sum += event->sector;
	seen->n++;
	return NULL;
}

/* Nearly in order within a CPU, now and then one from far before; none is lost and none comes
 * twice. */
static void test_random(void **state)
{
	struct order order;
	struct seen seen = {};
	uint64_t sum = 0, n = 0;
	uint64_t random = 1;

	(void)state;
	order_init(&order, 5);
	for (unsigned int round = 1; round <= 50; round++) {
		for (unsigned int i = 0; i < 1000; i++) {
			uint64_t base = round * 100000;
			struct rec_event event = {
				.cpu = (uint32_t)(random_u64(&random) % 5),
				.time = base + i * 100 - random_u64(&random) % 300,
				.sector = ++n,
			};

			if (random_u64(&random) % 100 == 0)
				event.time = base - random_u64(&random) % 50000;
			sum += event.sector;
			order_add(&order, &event);
		}
		seen.until_ns = round * 100000 + 50000;
		assert_ok(order_give(&order, seen.until_ns, see, &seen));
	}
	seen.until_ns = UINT64_MAX;
	assert_ok(order_give(&order, UINT64_MAX, see, &seen));
	assert_int_equal(seen.n, n);
	assert_int_equal(seen.sum, sum);
	assert_int_equal(order.n, 0);
	order_deinit(&order);
}

static struct error *take_down(void *context, const struct rec_event *event)
{
	uint64_t *sectors = context;

	sectors[sectors[0]++] = event->sector;
	return NULL;
}

/* Those of one time stay in the order in which their CPU has sent them. */
static void test_stable(void **state)
{
	uint64_t sectors[8] = { 1 };
	struct order order;

	(void)state;
	order_init(&order, 1);
	for (uint64_t i = 1; i <= 6; i++)
		order_add(&order, &(struct rec_event){ .time = i < 4 ? 7 : 5, .sector = i });
	assert_ok(order_give(&order, 8, take_down, sectors));
	for (uint64_t i = 1; i <= 6; i++)
		assert_int_equal(sectors[i], i <= 3 ? i + 3 : i - 3);
	order_deinit(&order);
}

/* Memory has a bound: beyond it the oldest go, though others might come before them. */
static void test_bound(void **state)
{
	struct seen seen = { .until_ns = UINT64_MAX };
	struct order order;

	(void)state;
	order_init(&order, 2);
	for (uint64_t i = 0; i < ORDER_EVENTS_MAX + 10; i++)
		order_add(&order, &(struct rec_event){ .cpu = i % 2, .time = i + 1 });
	assert_ok(order_give(&order, 0, see, &seen));
	assert_int_equal(order.n, ORDER_EVENTS_MAX);
	assert_int_equal(seen.n, 10);
	assert_int_equal(seen.last_ns, 10);
	order_deinit(&order);
}

static struct error *refuse(void *context, const struct rec_event *event)
{
	(void)context, (void)event;
	return error_new("no");
}

static void test_error(void **state)
{
	struct order order;

	(void)state;
	order_init(&order, 1);
	order_add(&order, &(struct rec_event){ .time = 1 });
	assert_failed(order_give(&order, 2, refuse, NULL), "no");
	order_deinit(&order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_stable),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
