/* Runs that wait for memory: which of them may be attempted again, and which fail, in orders of events that a server
 * meets rarely. */
#include "serve/base/run_budget.h"
#include "cmocka_all.h"

enum { BUDGET = 100, MUCH = 80 };

/* Memory of the other runs: in use, and kept by contexts that are idle. */
struct memory {
    uint64_t used, idle;
    uint64_t idle_later; /* becomes idle memory after the next release, as if a run had just ended */
};

static uint64_t used(void *user)
{
    const struct memory *memory = user;

    return memory->used + memory->idle;
}

static void release_idle(void *user)
{
    struct memory *memory = user;

    memory->idle = memory->idle_later;
    memory->idle_later = 0;
}

static const uint32_t never;

static struct run_budget make_budget(struct memory *memory, atomic_uint_fast64_t *waits)
{
    struct run_budget budget = {
        .bytes = BUDGET, .used = used, .release_idle = release_idle, .user = memory, .waits = waits
    };

    run_budget_init(&budget);
    return budget;
}

/* An attempt that is refused memory. */
static void attempt(struct run_budget *budget, run_turn *turn)
{
    run_budget_begin(budget, turn);
    run_budget_end(budget);
}

/* A run that no other run disturbs fails at its second attempt. */
static void test_alone(void **state)
{
    struct memory memory = { .used = 0 };
    atomic_uint_fast64_t waits = 0;
    struct run_budget budget = make_budget(&memory, &waits);
    run_turn turn = { .cancel = &never };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    attempt(&budget, &turn);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_OK);
    assert_true(turn.is_next && waits == 1);
    attempt(&budget, &turn);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_LIMIT_EXCEEDED);
    run_budget_leave(&budget, &turn);
    run_budget_deinit(&budget);
}

/* The runs that held the memory during the attempt end before the run asks. */
static void test_others_end(void **state)
{
    struct memory memory = { .used = MUCH };
    atomic_uint_fast64_t waits = 0;
    struct run_budget budget = make_budget(&memory, &waits);
    run_turn turn = { .cancel = &never }, other = { .cancel = &never };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    run_budget_begin(&budget, &other);
    turn.is_next = budget.is_taken = true; /* it has waited before */
    attempt(&budget, &turn);
    memory.used = 0;
    run_budget_end(&budget);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_OK);
    attempt(&budget, &turn);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_LIMIT_EXCEEDED); /* now it was alone */
    run_budget_leave(&budget, &turn);
    run_budget_leave(&budget, &other);
    run_budget_deinit(&budget);
}

/* A run that ends between the release and the attempt leaves idle memory. */
static void test_idle_memory(void **state)
{
    struct memory memory = { .used = 0, .idle = MUCH, .idle_later = MUCH };
    atomic_uint_fast64_t waits = 0;
    struct run_budget budget = make_budget(&memory, &waits);
    run_turn turn = { .cancel = &never };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    attempt(&budget, &turn);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_OK);
    assert_int_equal(used(&memory), 0);
    run_budget_leave(&budget, &turn);
    run_budget_deinit(&budget);
}

/* Memory that no run in progress holds, as outputs that a client still reads, is freed during the attempt. */
static void test_freed_meanwhile(void **state)
{
    struct memory memory = { .used = MUCH };
    atomic_uint_fast64_t waits = 0;
    struct run_budget budget = make_budget(&memory, &waits);
    run_turn turn = { .cancel = &never };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    attempt(&budget, &turn);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_OK);
    run_budget_begin(&budget, &turn);
    memory.used = 0;
    run_budget_end(&budget);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_OK);
    attempt(&budget, &turn);
    assert_int_equal(run_budget_wait(&budget, &turn, &diag), INLAY_LIMIT_EXCEEDED);
    run_budget_leave(&budget, &turn);
    run_budget_deinit(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_others_end),
        cmocka_unit_test(test_idle_memory),
        cmocka_unit_test(test_freed_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
