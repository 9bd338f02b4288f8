/* Sizes that change from run to run: results equal those of a fresh session at every size, regardless of earlier
 * runs and the number of threads. Plans are reused, and their number is limited. */
#include "exec/context/run_shared.h"
#include "graph_script.h"
#include "plan/plan.h"
#include "session/session.h"
#include <pthread.h>

enum { SIZES = 24, RUNS = 60, THREADS = 3, MAX_INPUTS = 3, MAX_OUTPUTS = 2 };

struct script {
    const char *what, *text;
};

static const struct script scripts[] = {
    { "products, pointwise, rows",
      "x : N,64\nw = [64,64]\nv = [64,32]\nc = [64]\nk = i[] 1\na = MatMul(x, w)\nb = Add(a, c)\nd = Relu(b)\n"
      "e = Softmax(d)\ni = i[2] 1,0\nf = Gather(e, i) axis=1\ng = MatMul(e, v)\nh = Tanh(g)\nl = CumSum(h, k)\n"
      "m = Exp(l)\n-> m, f" },
    { "attention over a past",
      "q : 1,4,1,16\np : 1,4,N,16\nn : 1,4,1,16\nk = Concat(p, n) axis=2\nt = Transpose(k) perm=0,1,3,2\n"
      "s = MatMul(q, t)\nf = [] 0.25\nm = Mul(s, f)\na = Softmax(m) axis=-1\ny = MatMul(a, k)\n-> y, k" },
    { "an image, squeeze and excite, pools",
      "x : 1,3,N,N\nw = [16,3,3,3]\nb = [16]\nc = Conv(x, w, b) pads=1,1,1,1\nr = Relu(c)\ng = GlobalAveragePool(r)\n"
      "u = [16,16,1,1]\nh = Conv(g, u)\ns = Sigmoid(h)\nm = Mul(r, s)\na = Add(m, c)\nz = Sqrt(r)\no = Mul(a, z)\n"
      "p = AveragePool(o) kernel_shape=3,3 pads=1,1,1,1 strides=2,2\nq = MaxPool(o) kernel_shape=3,3 pads=1,1,1,1\n"
      "-> p, q" },
    { "whole tensors and scalars",
      "x : 2,5,N\ny : 2,5,N\nm = Mul(x, x)\nn = Mul(y, y)\na = Add(m, n)\nr = Sqrt(a)\nk = [1,1,1] 3.5\nt = Mul(r, k)\n"
      "b = [1,5,1]\nc = Add(t, b)\nd = Sub(c, x)\ne = Div(d, a)\n-> e, c" },
    { "a branch",
      "x : N,64\nz = [] 100\ns = ReduceSum(x) keepdims=0\nt = Greater(z, s)\ny = If(t) then:Neg(x) else:Relu(x)\n"
      "u = Exp(y)\n-> u" },
    { "data-dependent sizes", "x : N,8\nw = [8,8]\na = Relu(x)\nm = ReduceMax(a) axes=1, keepdims=0\nn = NonZero(m)\n"
                              "o = i[1] 0\ni = Squeeze(n, o)\ng = Gather(a, i) axis=0\ny = MatMul(g, w)\n-> y" },
};

static const char *const provider_lists[] = { "reference", "cpu,reference" };

struct answer {
    uint32_t input_count, count;
    inlay_value *inputs[MAX_INPUTS], *outputs[MAX_OUTPUTS];
};

static bool try_open(const struct script *script, const char *providers, struct rig *out)
{
    const char *options[] = { "providers", providers, "policy", "priority", "intra_threads", "1", NULL };
    struct wire wire = { 0 };

    script_model(&wire, 17, script->text);
    return rig_open_if_built(&wire, options, script->what, out);
}

static uint32_t seed_of(int64_t size)
{
    return (uint32_t)size * 7919u + 1u;
}

/* Inputs depend on the size only. */
static void run_at(struct rig *rig, int64_t size)
{
    script_feed_sized(rig, size, seed_of(size), 0);
    rig_run(rig);
}

static struct answer fresh_answer(const struct script *script, const char *providers, int64_t size)
{
    struct answer answer = { 0 };
    uint64_t seed = seed_of(size);
    struct rig rig;

    assert_true(try_open(script, providers, &rig));
    answer.input_count = inlay_session_input_count(rig.session);
    assert_true(answer.input_count <= MAX_INPUTS);
    for (uint32_t i = 0; i < answer.input_count; i++) {
        answer.inputs[i] = script_input(&rig, i, size, &seed, 0);
        rig_bind(&rig, i, inlay_value_ref(answer.inputs[i]));
    }
    rig_run(&rig);
    answer.count = inlay_session_output_count(rig.session);
    assert_true(answer.count <= MAX_OUTPUTS);
    for (uint32_t i = 0; i < answer.count; i++)
        answer.outputs[i] = inlay_value_ref(inlay_context_output(rig.context, i));
    rig_close(&rig);
    return answer;
}

/* Returns NULL, or a description of the difference. Small errors are allowed, because the first observed shapes may
 * select other kernels, which round differently. */
static const char *compare(inlay_context *context, const struct answer *want)
{
    for (uint32_t i = 0; i < want->count; i++) {
        const inlay_value *got = inlay_context_output(context, i), *value = want->outputs[i];

        if (inlay_value_rank(got) != inlay_value_rank(value) ||
            memcmp(inlay_value_dims(got), inlay_value_dims(value), inlay_value_rank(value) * sizeof(int64_t)) != 0)
            return "another shape than in a fresh session";
        for (int64_t k = 0; k < inlay_value_count(value); k++) {
            const float x = ((const float *)inlay_value_data((inlay_value *)(uintptr_t)got))[k];
            const float y = ((const float *)inlay_value_data((inlay_value *)(uintptr_t)value))[k];

            if (!(fabsf(x - y) <= 1e-5f + 1e-5f * fabsf(y)) && !(isnan(x) && isnan(y)))
                return "another number than in a fresh session";
        }
    }
    return NULL;
}

struct job {
    inlay_context *context; /* of the shared session */
    const struct answer *answers;
    uint64_t seed;
    const char *wrong;
    int64_t at;
    inlay_diag diag;
};

/* Returns NULL, or what failed. Makes no assertions, because cmocka cannot leave a test from another thread. */
static const char *run_with(struct job *job, const struct answer *answer)
{
    for (uint32_t i = 0; i < answer->input_count; i++)
        if (inlay_context_set_input(job->context, i, answer->inputs[i], &job->diag) != INLAY_OK)
            return job->diag.text;
    if (inlay_context_run(job->context, NULL, &job->diag) != INLAY_OK)
        return job->diag.text;
    return compare(job->context, answer);
}

static void *run_job(void *user)
{
    struct job *job = user;

    for (int i = 0; i < RUNS && job->wrong == NULL; i++) {
        /* Growing sizes first, as in decoders, then random ones. */
        job->at = i < SIZES ? i + 1 : 1 + (int64_t)random_below(&job->seed, SIZES);
        job->wrong = run_with(job, &job->answers[job->at]);
    }
    return NULL;
}

static void check_script(const struct script *script, const char *providers)
{
    struct answer answers[SIZES + 1] = { { 0 } };
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    struct rig rig;

    if (!try_open(script, providers, &rig))
        return;
    for (int64_t size = 1; size <= SIZES; size++)
        answers[size] = fresh_answer(script, providers, size);
    for (uint32_t t = 0; t < THREADS; t++) {
        jobs[t] = (struct job){ .answers = answers, .seed = t + 1, .diag = INLAY_DIAG_INIT };
        assert_int_equal(inlay_context_create(rig.session, &jobs[t].context, NULL), INLAY_OK);
    }
    for (uint32_t thread = 0; thread < THREADS; thread++)
        assert_int_equal(pthread_create(&threads[thread], NULL, run_job, &jobs[thread]), 0);
    for (uint32_t thread = 0; thread < THREADS; thread++)
        assert_int_equal(pthread_join(threads[thread], NULL), 0);
    for (uint32_t t = 0; t < THREADS; t++) {
        if (jobs[t].wrong != NULL)
            fail_msg("%s, %s, size %lld: %s", script->what, providers, (long long)jobs[t].at, jobs[t].wrong);
        inlay_context_destroy(jobs[t].context);
    }
    assert_true(rig.session->main->kept.plan_count <= PLANS_KEPT);
    for (int64_t size = 1; size <= SIZES; size++) {
        for (uint32_t i = 0; i < answers[size].input_count; i++)
            inlay_value_unref(answers[size].inputs[i]);
        for (uint32_t i = 0; i < answers[size].count; i++)
            inlay_value_unref(answers[size].outputs[i]);
    }
    rig_close(&rig);
}

static void equal_to_fresh_sessions(void **state)
{
    (void)state;
    for (size_t plugin = 0; plugin < sizeof provider_lists / sizeof provider_lists[0]; plugin++)
        for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
            check_script(&scripts[i], provider_lists[plugin]);
}

enum { MOST_TEXT = 4096, MOST_VALUES = 16, SIZE_CHANGES = 24, GENERATED = 24 };

/* Writes a random script. Its inputs are x : N,8 and y : M,8, and all values have rows of 8 numbers; rows may be known
 * only at run time. */
static void generate(uint64_t *seed, char *text)
{
    static const char *const forms[] = {
        "%s = Relu(%s)\n",
        "%s = MatMul(%s, w)\n",
        "%s = Concat(%s, %s) axis=0\n",
        "t@ = Tanh(%2$s)\n%1$s = Mul(t@, %2$s)\n",
        "s@ = Shape(%2$s)\nt@ = Transpose(%2$s) perm=1,0\n%1$s = Reshape(t@, s@)\n",
        "s@ = Shape(%3$s)\ng@ = Gather(s@, first) axis=0\nc@ = Concat(%2$s, %3$s) axis=0\n"
        "%1$s = Slice(c@, first, g@, first)\n",
        "s@ = Shape(%3$s)\nz@ = ConstantOfShape(s@) value=#0.5\nr@ = ReduceMax(%2$s) axes=0, keepdims=1\n"
        "%1$s = Add(z@, r@)\n",
        "m@ = ReduceMax(%2$s) axes=1, keepdims=0\np@ = Relu(m@)\nn@ = NonZero(p@)\ni@ = Squeeze(n@, first)\n"
        "%1$s = Gather(%2$s, i@) axis=0\n",
        "s@ = ReduceSum(%2$s) keepdims=0\nb@ = Greater(s@, limit)\n%1$s = If(b@) then:Neg(%2$s) else:Relu(%2$s)\n",
    };
    char names[MOST_VALUES][8] = { "x", "y" };
    uint32_t count = 2, length;

    length = (uint32_t)snprintf(text, MOST_TEXT, "x : N,8\ny : M,8\nw = [8,8]\nfirst = i[1] 0\nlimit = [] 20\n");
    while (count < MOST_VALUES) {
        const uint32_t form = (uint32_t)random_below(seed, sizeof forms / sizeof forms[0]);
        char line[512];

        (void)snprintf(names[count], sizeof names[count], "v%u", count);
        (void)snprintf(line, sizeof line, forms[form], names[count], names[random_below(seed, count)],
                       names[random_below(seed, count)]);
        for (const char *at = line; *at != '\0'; at++) { /* @: the number of the form */
            assert_true(length + 8 < MOST_TEXT);
            if (*at == '@')
                length += (uint32_t)snprintf(text + length, MOST_TEXT - length, "%u", count);
            else
                text[length++] = *at;
        }
        count++;
    }
    (void)snprintf(text + length, MOST_TEXT - length, "all = Concat(x, y, v%u, v%u, v%u) axis=0\n-> v%u, all\n",
                   count / 3, count / 2, count - 2, count - 1);
}

/* Creates the plan for these sizes of the dimensions N and M. */
static inlay_status try_plan(struct rig *rig, int64_t n, int64_t m, struct plan **out_plan, inlay_diag *diag)
{
    const struct graph *graph = rig->session->main->graph;
    int64_t dims[MAX_INPUTS][INLAY_MAX_RANK];
    plan_input inputs[MAX_INPUTS];

    assert_true(graph->input_count <= MAX_INPUTS);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_info *info = &graph->values[graph->inputs[i]].info;

        for (uint32_t d = 0; d < info->rank; d++)
            dims[i][d] = info->dims[d].kind == INLAY_DIM_FIXED                             ? info->dims[d].value
                         : graph->model->symbols[info->dims[d].symbol].name.data[0] == 'N' ? n
                                                                                           : m;
        inputs[i] = (plan_input){ .dtype = info->dtype, .rank = info->rank, .dims = dims[i] };
    }
    return plan_get(rig->session->main, inputs, graph->input_count, NULL, out_plan, diag);
}

static struct plan *plan_at(struct rig *rig, int64_t n, int64_t m)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct plan *plan = NULL;

    if (try_plan(rig, n, m, &plan, &diag) != INLAY_OK)
        fail_msg("%lld, %lld: %s", (long long)n, (long long)m, diag.text);
    return plan;
}

static bool same_list(const inlay_dim *a, const inlay_dim *b, uint64_t count)
{
    return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

/* The first value whose shape or data differ between the plans; INLAY_NONE: none. */
static uint32_t first_difference(const struct plan *a, const struct plan *b)
{
    for (uint32_t v = 0; v < a->program->graph->value_count; v++) {
        const inlay_value_state *x = &a->states[v], *y = &b->states[v];
        const bool ranked = x->rank != INLAY_RANK_UNKNOWN;

        if (x->rank != y->rank || x->dtype != y->dtype || a->values[v].known != b->values[v].known ||
            (ranked && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) != 0) ||
            (x->data == NULL) != (y->data == NULL) ||
            (x->data != NULL && (x->data_bytes != y->data_bytes || memcmp(x->data, y->data, x->data_bytes) != 0)))
            return v;
        if (a->infos != NULL && (a->infos[v].rank != b->infos[v].rank ||
                                 (ranked && !same_list(a->infos[v].dims, b->infos[v].dims, x->rank)) ||
                                 a->infos[v].element_count != b->infos[v].element_count ||
                                 !same_list(a->infos[v].elements, b->infos[v].elements, a->infos[v].element_count)))
            return v;
    }
    return INLAY_NONE;
}

/* A plan that starts at the shapes of the previous one equals one that is inferred from the inputs alone, also if other
 * sizes were planned or dropped in between. */
static void plans_equal_new_ones(void **state)
{
    uint64_t seed = 20;

    (void)state;
    for (uint32_t model = 0; model < GENERATED; model++) {
        int64_t n = 3, m = 5;
        char text[MOST_TEXT];
        struct script script = { "generated", text };
        struct rig rig, fresh;

        generate(&seed, text);
        if (!try_open(&script, provider_lists[model % 2], &rig))
            continue;
        assert_true(try_open(&script, provider_lists[model % 2], &fresh));
        for (uint32_t change = 0; change < SIZE_CHANGES; change++) {
            struct plan *plan, *want;
            uint32_t value;

            if (random_below(&seed, 2) == 0)
                n = random_below(&seed, 4) == 0 ? 1 + (int64_t)random_below(&seed, 30) : n + 1;
            if (random_below(&seed, 3) == 0)
                m = random_below(&seed, 2) == 0 ? 1 + (int64_t)random_below(&seed, 30) : m + 1;
            if (random_below(&seed, 8) == 0)
                plan_drop_idle(rig.session->main, false);
            plan_drop_idle(fresh.session->main, true);
            plan = plan_at(&rig, n, m);
            want = plan_at(&fresh, n, m);
            assert_int_equal(plan->step_count, want->step_count);
            for (uint32_t i = 0; i < plan->step_count; i++)
                assert_int_equal(plan->steps[i].kind, want->steps[i].kind);
            assert_int_equal(plan->infos == NULL, want->infos == NULL);
            value = first_difference(plan, want);
            if (value != INLAY_NONE)
                fail_msg("N %lld, M %lld: '%s' differs in\n%s", (long long)n, (long long)m,
                         rig.session->main->graph->values[value].info.name.data, text);
            plan_unref(plan);
            plan_unref(want);
        }
        rig_close(&fresh);
        rig_close(&rig);
    }
}

/* A plan that fails midway leaves no shapes for the next one. */
static void failed_plans_leave_no_shapes(void **state)
{
    /* q is inferred after the node that fails. */
    const struct script script = { "equal rows", "x : N,8\ny : M,8\nr = Exp(x)\na = Add(r, y)\nq = Sqrt(y)\n-> a, q" };
    struct plan *plan = NULL, *want;
    struct rig rig, fresh;

    (void)state;
    assert_true(try_open(&script, "reference", &rig));
    assert_true(try_open(&script, "reference", &fresh));
    for (int64_t n = 2; n < 8; n++) {
        plan_unref(plan_at(&rig, n, n));
        assert_int_equal(try_plan(&rig, n, n + 3, &plan, NULL), INLAY_SHAPE_MISMATCH);
        assert_null(plan);
        plan = plan_at(&rig, n + 3, n + 3);
        plan_drop_idle(fresh.session->main, true);
        want = plan_at(&fresh, n + 3, n + 3);
        assert_int_equal(first_difference(plan, want), INLAY_NONE);
        plan_unref(plan);
        plan_unref(want);
        plan = NULL;
    }
    rig_close(&fresh);
    rig_close(&rig);
}

/* If sizes never repeat, few plans are kept. When a size whose plan was removed occurs again, the limit grows to the
 * number of alternating sizes, which then need no new plans. If there are too many sizes, the least recently used plans
 * are removed. */
static void plans_are_kept(void **state)
{
    struct rig rig;
    uint64_t made;

    (void)state;
    assert_true(try_open(&scripts[0], "reference", &rig));
    for (int64_t size = 1; size <= PLANS_KEPT; size++) {
        run_at(&rig, size);
        assert_int_equal(rig.session->main->kept.plan_count, size < FEW_PLANS_KEPT ? size : FEW_PLANS_KEPT);
    }
    assert_int_equal(rig.session->main->kept.made, PLANS_KEPT);
    for (int64_t size = PLANS_KEPT - FEW_PLANS_KEPT + 1; size <= PLANS_KEPT; size++)
        run_at(&rig, size);
    assert_int_equal(rig.session->main->kept.made, PLANS_KEPT);
    for (int64_t size = 1; size <= PLANS_KEPT; size++)
        run_at(&rig, size);
    made = rig.session->main->kept.made;
    assert_in_range(made, PLANS_KEPT + 1, 2 * PLANS_KEPT);
    for (int round = 0; round < 3; round++)
        for (int64_t size = 1; size <= PLANS_KEPT; size++)
            run_at(&rig, size);
    assert_int_equal(rig.session->main->kept.made, made);
    for (int64_t size = PLANS_KEPT + 1; size <= 100; size++) {
        run_at(&rig, size);
        assert_int_equal(rig.session->main->kept.plan_count, PLANS_KEPT);
    }
    assert_int_equal(rig.session->main->kept.made, made + 100 - PLANS_KEPT);
    rig_close(&rig);
}

static void run_rows(struct runner *run, int64_t rows)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    run_value input;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ rows, 64 }, &value, NULL), INLAY_OK);
    input = run_value_of(value);
    if (runner_run(run, &input, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_value_unref(value);
}

/* Memory for large inputs is released after them; all plans share one slab. */
static void memory_is_released(void **state)
{
    const uint64_t small = 1 << 20;
    run_shared shared;
    struct runner *run = NULL;
    const void *slab;
    struct rig rig;

    (void)state;
    assert_true(try_open(&scripts[0], "reference", &rig));
    assert_int_equal(run_shared_init(&shared, 1, UINT64_C(1) << 30, NULL), INLAY_OK);
    assert_int_equal(runner_create(rig.session->main, &shared, &run, NULL), INLAY_OK);
    run_rows(run, 20000);
    assert_true(run->plans.slab_bytes > 4 * small);
    for (int64_t rows = 1; rows <= MAX_BOUND_PLANS; rows++)
        run_rows(run, rows);
    run_rows(run, MAX_BOUND_PLANS + 1);
    assert_true(run->plans.slab_bytes <= small);
    run_rows(run, 200);
    slab = run->plans.slab;
    for (int64_t rows = 200; rows > 150; rows--) {
        run_rows(run, rows);
        assert_ptr_equal(run->plans.slab, slab);
    }
    runner_destroy(run);
    run_shared_deinit(&shared);
    rig_close(&rig);
}

static inlay_value *take_mib(run_shared *shared, int64_t mib)
{
    inlay_value *value = NULL;

    assert_int_equal(pool_take(shared, INLAY_UINT8, 1, (const int64_t[]){ mib << 20 }, &value, NULL), INLAY_OK);
    return value;
}

/* Idle tensors that are too large to be reused do not add to the memory that a run needs. */
static void idle_tensors_are_limited(void **state)
{
    run_memory *memory = run_memory_create(NULL, 0, 0, 0);
    inlay_value *large, *medium, *small, *again, *tiny[POOL_SIZE];
    run_shared shared;
    void *workspace;

    (void)state;
    assert_non_null(memory);
    assert_int_equal(run_shared_init(&shared, 1, UINT64_C(1) << 30, memory), INLAY_OK);
    /* A few megabytes are kept. */
    medium = take_mib(&shared, 10);
    pool_give(&shared, medium);
    small = take_mib(&shared, 4);
    assert_int_equal(run_memory_used(memory), 14 << 20);
    again = take_mib(&shared, 10);
    assert_ptr_equal(again, medium);
    pool_give(&shared, again);
    pool_give(&shared, small);
    /* 64 MiB were in use, and 24 are needed now: keeping both would be more. */
    large = take_mib(&shared, 64);
    pool_give(&shared, large);
    medium = take_mib(&shared, 24);
    assert_true(run_memory_used(memory) <= (24 + 14) << 20);
    pool_give(&shared, medium);
    run_shared_drop(&shared);
    assert_int_equal(run_memory_used(memory), 0);
    /* A tensor that grows gets room for the next steps, and stays although the pool is full of small tensors. */
    for (uint32_t i = 0; i < POOL_SIZE; i++)
        tiny[i] = take_mib(&shared, 0);
    large = take_mib(&shared, 20);
    for (uint32_t i = 0; i < POOL_SIZE; i++)
        pool_give(&shared, tiny[i]);
    pool_give(&shared, large);
    large = take_mib(&shared, 21);
    pool_give(&shared, large);
    again = take_mib(&shared, 22);
    assert_ptr_equal(again, large);
    pool_give(&shared, again);
    run_shared_drop(&shared);
    assert_int_equal(run_memory_used(memory), 0);
    /* An idle workspace of steps that are sized when they run is limited like idle tensors. */
    assert_int_equal(run_take_workspace(&shared, 8 << 20, 64, &workspace, NULL), INLAY_OK);
    small = take_mib(&shared, 4);
    assert_int_equal(run_memory_used(memory), 12 << 20);
    assert_int_equal(run_take_workspace(&shared, 64 << 20, 64, &workspace, NULL), INLAY_OK);
    large = take_mib(&shared, 60);
    assert_true(run_memory_used(memory) <= (4 + 64 + 16) << 20);
    pool_give(&shared, small);
    pool_give(&shared, large);
    run_shared_drop(&shared);
    assert_int_equal(run_memory_used(memory), 0);
    run_shared_deinit(&shared);
    run_memory_unref(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_fresh_sessions),      cmocka_unit_test(plans_equal_new_ones),
        cmocka_unit_test(failed_plans_leave_no_shapes), cmocka_unit_test(plans_are_kept),
        cmocka_unit_test(memory_is_released),           cmocka_unit_test(idle_tensors_are_limited)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
