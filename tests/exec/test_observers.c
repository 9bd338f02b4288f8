/* Observers of runs: each is called for the steps that it marks, or for all, and gets the value that it stored at the
 * begin of the step. If an observer fails, the run ends. */
#include "api/context.h"
#include "cmocka_all.h"
#include "exec/loop/observe.h"
#include "graph_script.h"
#include "inlay/plugin.h"

/* Counts what it sees. */
struct counter {
    run_observer observer;
    uint32_t begun_runs, ended_runs, good_runs, begun_steps, ended_steps, failed_steps, destroyed;
    uint32_t wrong_own; /* end_step without what begin_step stored */
    uint64_t last_ns;   /* end of the last step */
    bool is_out_of_order;
    uint32_t mark_step; /* for marking counters: the step of the main graph that is observed */
    uint32_t refuse_at; /* begin_step returns false from this step on; 0 = never */
    uint32_t fail_at;   /* end_step fails at this step, counted from 1; 0 = never */
};

static void begin_run(run_observer *observer, run_shared *shared)
{
    (void)shared;
    ((struct counter *)observer)->begun_runs++;
}

static void end_run(run_observer *observer, run_shared *shared, uint64_t ns, bool ok)
{
    struct counter *counter = (struct counter *)observer;

    (void)shared;
    assert_true(ns > 0);
    counter->ended_runs++;
    counter->good_runs += ok;
}

static void mark(run_observer *observer, struct bound *bound, uint8_t mark)
{
    if (bound->plan->program->graph->parent == NULL)
        observers_mark_step(&bound->steps[((struct counter *)observer)->mark_step], mark);
}

static bool begin_step(run_observer *observer, run_event *event)
{
    struct counter *counter = (struct counter *)observer;

    counter->begun_steps++;
    event->own = counter;
    return counter->refuse_at == 0 || counter->begun_steps < counter->refuse_at;
}

static inlay_status end_step(run_observer *observer, const run_event *event, inlay_diag *diag)
{
    struct counter *counter = (struct counter *)observer;

    counter->wrong_own += event->own != counter;
    counter->ended_steps++;
    counter->failed_steps += event->status != INLAY_OK;
    counter->is_out_of_order |= event->end_ns < event->begin_ns || event->end_ns < counter->last_ns;
    counter->last_ns = event->end_ns;
    return counter->ended_steps == counter->fail_at
               ? inlay_fail(diag, INLAY_RESULTS_DIFFER, "step %u", counter->fail_at)
               : INLAY_OK;
}

static void destroy(run_observer *observer)
{
    ((struct counter *)observer)->destroyed++;
}

static const run_observer_calls all_steps = {
    .begin_run = begin_run, .end_run = end_run, .begin_step = begin_step, .end_step = end_step, .destroy = destroy
};
static const run_observer_calls marked_steps = {
    .mark = mark, .begin_step = begin_step, .end_step = end_step, .destroy = destroy
};

/* Option check_finite, an observer itself, makes each node a step: three of the main graph, one of the branch. */
enum { STEPS = 4 };

static struct rig open_rig(struct wire *wire)
{
    static const char *const options[] = { "providers", "reference", "check_finite", "1", "level", "0", NULL };
    static const float input[] = { 1, 2, 3, -4, 5, 6 };
    struct rig rig;

    *wire = (struct wire){ 0 };
    script_model(wire, 21, "x : 2,3\nq : bool -\ny = Exp(x)\nz = If(q) then:Neg(y) else:Abs(y)\nw = Relu(z)\n-> w");
    rig = rig_open(wire, options);
    rig_floats(&rig, 0, "2,3", input);
    rig_set(&rig, 1, INLAY_BOOL, "", &(bool){ true });
    return rig;
}

static inlay_status run(const struct rig *rig, inlay_diag *diag)
{
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    return inlay_context_run(rig->context, NULL, diag);
}

static void sees_chosen_steps(void **state)
{
    struct counter all = { .observer.calls = &all_steps }, one = { .observer.calls = &marked_steps, .mark_step = 2 };
    struct counter none = { .observer.calls = &marked_steps, .refuse_at = 1 };
    struct wire wire;
    struct rig rig = open_rig(&wire);
    inlay_diag diag;

    (void)state;
    observers_add(&rig.context->shared, &one.observer);
    observers_add(&rig.context->shared, &all.observer);
    observers_add(&rig.context->shared, &none.observer);
    for (uint32_t runs = 1; runs <= 2; runs++) {
        assert_int_equal(run(&rig, &diag), INLAY_OK);
        assert_int_equal(all.begun_steps, runs * STEPS);
        assert_int_equal(all.ended_steps, runs * STEPS);
        assert_int_equal(all.good_runs, runs);
        assert_int_equal(one.ended_steps, runs);
        assert_int_equal(none.begun_steps, runs);
        assert_int_equal(none.ended_steps, 0);
    }
    assert_int_equal(all.wrong_own + one.wrong_own, 0);
    assert_false(all.is_out_of_order);
    observers_remove(&rig.context->shared, &all.observer);
    assert_int_equal(all.destroyed, 1);
    assert_int_equal(run(&rig, &diag), INLAY_OK);
    assert_int_equal(all.ended_steps, 2 * STEPS);
    assert_int_equal(one.ended_steps, 3);
    rig_close(&rig);
    assert_int_equal(one.destroyed + none.destroyed, 2);
}

/* Ends the run at each step in turn. The message of the main graph is the observer's own; that of a branch also names
 * the node whose branch it is. */
static void ends_run(void **state)
{
    for (uint32_t at = 1; at <= STEPS; at++) {
        struct counter all = { .observer.calls = &all_steps, .fail_at = at }, other = { .observer.calls = &all_steps };
        struct wire wire;
        struct rig rig = open_rig(&wire);
        char text[16];
        inlay_diag diag;

        (void)state;
        observers_add(&rig.context->shared, &all.observer);
        observers_add(&rig.context->shared, &other.observer);
        assert_int_equal(run(&rig, &diag), INLAY_RESULTS_DIFFER);
        (void)snprintf(text, sizeof text, "step %u", at);
        if (at == 2)
            assert_non_null(strstr(diag.text, text));
        else
            assert_string_equal(diag.text, text);
        assert_true((strcmp(diag.text, text) != 0) == (at == 2));
        assert_int_equal(other.good_runs, 0);
        assert_int_equal(other.ended_runs, 1);
        /* the step around the branch fails, too */
        assert_int_equal(other.ended_steps, at == 2 ? 3 : at);
        assert_int_equal(other.failed_steps, at == 2);
        assert_int_equal(run(&rig, &diag), INLAY_OK); /* with the marks of the run before */
        assert_int_equal(other.good_runs, 1);
        rig_close(&rig);
    }
}

/* Without observers no step keeps a mark. */
static void leaves_no_marks(void **state)
{
    struct counter all = { .observer.calls = &all_steps, .fail_at = 1 };
    struct wire wire;
    struct rig rig = open_rig(&wire);
    const struct bound *bound;
    inlay_diag diag;

    (void)state;
    observers_destroy(&rig.context->shared);
    observers_add(&rig.context->shared, &all.observer);
    assert_int_equal(run(&rig, &diag), INLAY_RESULTS_DIFFER);
    bound = rig.context->runner->plans.now;
    assert_int_equal(bound->steps[2].observed, 1);
    observers_destroy(&rig.context->shared);
    assert_int_equal(rig.context->shared.observers.used | rig.context->shared.observers.all, 0);
    assert_int_equal(run(&rig, &diag), INLAY_OK);
    assert_ptr_equal(bound, rig.context->runner->plans.now);
    for (uint32_t i = 0; i < bound->plan->step_count; i++) {
        assert_int_equal(bound->steps[i].observed, 0);
        assert_int_equal(bound->steps[i].simple, bound_step_is_simple(&bound->steps[i]));
    }
    assert_int_equal(all.ended_steps, 1);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sees_chosen_steps), cmocka_unit_test(ends_run),
                                        cmocka_unit_test(leaves_no_marks) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
