/* inlay_session_update(): a session whose weights were replaced computes, bit for bit, what a session of the changed
 * model computes; runs use old or new weights, never both; a failure changes nothing. */
#include "cmocka_all.h"
#include "base/heap.h"
#include "run_context.h"
#include "session/session.h"
#include "update_models.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MODELS = 24, OUTPUT_BYTES = ROWS * WIDTH * 4 };

struct result {
    unsigned char bytes[OUTPUT_BYTES];
};

static inlay_session *open_model(const onnx_bytes *file, const char *providers)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    if (providers != NULL)
        assert_int_equal(inlay_options_set(options, "providers", providers, &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(file->data, file->count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    return session;
}

/* A context with its inputs bound. */
static inlay_context *make_context(inlay_session *session, bool condition)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;
    inlay_value *x = NULL, *c = NULL;
    uint64_t seed = 5;

    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, value_dims, &x, &diag), INLAY_OK);
    for (int i = 0; i < ROWS * WIDTH; i++)
        ((float *)inlay_value_data(x))[i] = random_signed(&seed);
    assert_int_equal(inlay_value_create(INLAY_BOOL, 0, NULL, &c, &diag), INLAY_OK);
    *(uint8_t *)inlay_value_data(c) = condition;
    assert_int_equal(inlay_context_set_input(context, inlay_session_find_input(session, "x"), x, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, inlay_session_find_input(session, "c"), c, &diag), INLAY_OK);
    inlay_value_unref(x);
    inlay_value_unref(c);
    return context;
}

static struct result run(inlay_context *context)
{
    const inlay_value *y;
    struct result made;

    run_context(context);
    y = inlay_context_output(context, 0);
    assert_int_equal(inlay_value_bytes(y), sizeof made.bytes);
    memcpy(made.bytes, inlay_value_data(y), sizeof made.bytes);
    return made;
}

static bool same(const struct result *a, const struct result *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static struct result run_once(inlay_session *session, bool condition)
{
    inlay_context *context = make_context(session, condition);
    const struct result made = run(context);

    inlay_context_destroy(context);
    return made;
}

/* Replaces the weights of `model` for which chosen[i] is set by those of its contents. */
static inlay_status update(inlay_session *session, const update_model *model, const bool *chosen, inlay_diag *diag)
{
    const char *names[MAX_WEIGHTS];
    inlay_value *values[MAX_WEIGHTS];
    uint32_t count = 0;
    inlay_status status;

    for (uint32_t i = 0; i < model->weight_count; i++) {
        if (!chosen[i])
            continue;
        names[count] = model->weights[i].name;
        values[count] = weight_value(&model->weights[i], model->contents[i]);
        assert_non_null(values[count++]);
    }
    status = inlay_session_update(session, count, names, values, diag);
    while (count > 0)
        inlay_value_unref(values[--count]);
    return status;
}

/* Updates a session of a random model several times, each time some of the weights, and compares it with sessions of
 * the changed models. */
static void check_model(uint64_t seed, const char *providers)
{
    static onnx_bytes file, changed_file;
    static update_model model;
    uint64_t contents[MAX_WEIGHTS], random = seed;
    bool chosen[MAX_WEIGHTS];
    inlay_session *session, *other;
    inlay_context *old_context;
    inlay_diag diag = INLAY_DIAG_INIT;
    const bool condition = random_below(&random, 2) == 0;
    struct result before, want, got;

    for (uint32_t i = 0; i < MAX_WEIGHTS; i++)
        contents[i] = random_below(&random, 1000);
    assert_int_equal(update_model_write(&model, seed, contents, &file), 0);
    session = open_model(&file, providers);
    other = open_model(&file, providers);
    old_context = make_context(session, condition);
    before = run(old_context);
    for (int turn = 0; turn < 3; turn++) {
        inlay_session *changed;

        for (uint32_t i = 0; i < model.weight_count; i++) {
            chosen[i] = random_below(&random, 3) == 0;
            contents[i] += chosen[i] ? 1000 : 0;
        }
        assert_int_equal(update_model_write(&model, seed, contents, &changed_file), 0);
        if (update(session, &model, chosen, &diag) != INLAY_OK)
            fail_msg("model %d: %s", (int)seed, diag.text);
        changed = open_model(&changed_file, providers);
        want = run_once(changed, condition);
        got = run(old_context);
        if (!same(&got, &want))
            fail_msg("model %d, update %d: a context that has run before has other results", (int)seed, turn);
        got = run_once(session, condition);
        if (!same(&got, &want))
            fail_msg("model %d, update %d: a new context has other results", (int)seed, turn);
        inlay_session_destroy(changed);
    }
    got = run_once(other, condition);
    if (!same(&got, &before))
        fail_msg("model %d: another session of the model has changed", (int)seed);
    inlay_context_destroy(old_context);
    inlay_session_destroy(session);
    inlay_session_destroy(other);
}

static void test_same_bits(void **state)
{
    static const char *const providers[] = { NULL, "reference", "onednn?,reference", "openblas?,reference" };
    uint64_t seed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++)
        for (uint64_t k = 0; k < MODELS; k++)
            check_model(seed++, providers[i]);
}

/* y = (x * w0 + w1) * w2: contents a and b give other values to all of them. */
struct fixture {
    onnx_bytes file, other_file;
    update_model a, b;
    uint64_t contents_a[MAX_WEIGHTS], contents_b[MAX_WEIGHTS];
    bool all[MAX_WEIGHTS];
    struct result result_a, result_b;
};

/* A structure that has an If and at least four weights. */
static void make_fixture(struct fixture *made)
{
    uint64_t structure = 0;

    for (uint32_t i = 0; i < MAX_WEIGHTS; i++) {
        made->contents_a[i] = i;
        made->contents_b[i] = 500 + i;
        made->all[i] = true;
    }
    do
        assert_int_equal(update_model_write(&made->a, structure++, made->contents_a, &made->file), 0);
    while (made->a.weight_count < 8 || memmem(made->file.data, made->file.count, "then_branch", 11) == NULL);
    assert_int_equal(update_model_write(&made->b, structure - 1, made->contents_b, &made->other_file), 0);
    {
        inlay_session *a = open_model(&made->file, NULL), *b = open_model(&made->other_file, NULL);

        made->result_a = run_once(a, true);
        made->result_b = run_once(b, true);
        assert_false(same(&made->result_a, &made->result_b));
        inlay_session_destroy(a);
        inlay_session_destroy(b);
    }
}

enum { THREADS = 3, UPDATES = 40 };

struct worker {
    inlay_context *context;
    const struct fixture *known;
    uint32_t *stop; /* atomic */
    const char *failure;
    uint32_t runs;
};

static void *run_until_stopped(void *arg)
{
    struct worker *work = arg;

    while (work->failure == NULL && (work->runs == 0 || __atomic_load_n(work->stop, __ATOMIC_ACQUIRE) == 0)) {
        const inlay_value *y;

        if (inlay_context_run(work->context, NULL, NULL) != INLAY_OK) {
            work->failure = "a run failed";
            break;
        }
        y = inlay_context_output(work->context, 0);
        if (memcmp(inlay_value_data(y), work->known->result_a.bytes, OUTPUT_BYTES) != 0 &&
            memcmp(inlay_value_data(y), work->known->result_b.bytes, OUTPUT_BYTES) != 0)
            work->failure = "a result is neither of the old nor of the new weights";
        work->runs++;
    }
    return NULL;
}

static void test_runs_during_updates(void **state)
{
    static struct fixture known;
    inlay_session *session;
    inlay_context *own;
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t stop = 0;

    (void)state;
    make_fixture(&known);
    session = open_model(&known.file, NULL);
    own = make_context(session, true);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .context = make_context(session, true), .known = &known, .stop = &stop };
        assert_int_equal(pthread_create(&threads[i], NULL, run_until_stopped, &workers[i]), 0);
    }
    for (int i = 0; i < UPDATES; i++) {
        struct result got;

        if (update(session, i % 2 == 0 ? &known.b : &known.a, known.all, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        got = run(own); /* begins after the update */
        assert_true(same(&got, i % 2 == 0 ? &known.result_b : &known.result_a));
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        if (workers[i].failure != NULL)
            fail_msg("%s", workers[i].failure);
        inlay_context_destroy(workers[i].context);
    }
    inlay_context_destroy(own);
    inlay_session_destroy(session);
}

struct updater {
    inlay_session *session;
    const update_model *model;
    const bool *all;
    inlay_status status;
};

static void *update_often(void *arg)
{
    struct updater *work = arg;

    for (int i = 0; i < 5 && work->status == INLAY_OK; i++)
        work->status = update(work->session, work->model, work->all, NULL);
    return NULL;
}

/* Updates by several threads are serialised: at the end all weights are those of one thread. */
static void test_concurrent_updates(void **state)
{
    static struct fixture known;
    pthread_t threads[2];
    struct updater work[2];
    struct result got;

    (void)state;
    make_fixture(&known);
    work[0] = (struct updater){ open_model(&known.file, NULL), &known.a, known.all, INLAY_OK };
    work[1] = (struct updater){ work[0].session, &known.b, known.all, INLAY_OK };
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, update_often, &work[i]), 0);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_int_equal(work[i].status, INLAY_OK);
    }
    got = run_once(work[0].session, true);
    assert_true(same(&got, &known.result_a) || same(&got, &known.result_b));
    inlay_session_destroy(work[0].session);
}

static void test_failures(void **state)
{
    static struct fixture known;
    const int64_t wrong_dims[] = { 3 };
    inlay_session *session;
    inlay_value *good, *wrong, *integers, *list;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    make_fixture(&known);
    session = open_model(&known.file, NULL);
    good = weight_value(&known.b.weights[0], 1);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 1, wrong_dims, &wrong, &diag), INLAY_OK);
    assert_int_equal(
        inlay_value_create(INLAY_INT32, known.b.weights[0].rank, known.b.weights[0].dims, &integers, &diag), INLAY_OK);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_FLOAT, NULL, 0, &list, &diag), INLAY_OK);
    const struct {
        const char *names[2];
        inlay_value *values[2];
        inlay_status status;
        const char *texts[2]; /* parts of the message */
    } rows[] = {
        { { "w0", "wO" }, { good, good }, INLAY_NOT_FOUND, { "'wO'", "did you mean" } },
        { { "w0", "quite_different" }, { good, good }, INLAY_NOT_FOUND, { "'quite_different'", "file" } },
        { { "w0", "x" }, { good, good }, INLAY_NOT_FOUND, { "'x'", "not a dense initializer" } },
        { { "w0", "w0" }, { good, good }, INLAY_INVALID_ARGUMENT, { "'w0'", "twice" } },
        { { "w0", "w1" }, { good, wrong }, INLAY_SHAPE_MISMATCH, { "'w1'", "float[3]" } },
        { { "w1", "w0" }, { wrong, integers }, INLAY_SHAPE_MISMATCH, { "weight 'w1'", "type and shape" } },
        { { "w0", "w1" }, { integers, wrong }, INLAY_SHAPE_MISMATCH, { "'w0'", "int32" } },
        { { "w0", "w1" }, { good, list }, INLAY_INVALID_ARGUMENT, { "'w1'", "not a tensor" } },
        { { "w0", NULL }, { good, good }, INLAY_INVALID_ARGUMENT, { "weight 1", "name" } },
        { { "w0", "w1" }, { good, NULL }, INLAY_INVALID_ARGUMENT, { "weight 1", "value" } },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct result got;

        diag = (inlay_diag)INLAY_DIAG_INIT;
        assert_int_equal(inlay_session_update(session, 2, rows[i].names, rows[i].values, &diag), rows[i].status);
        for (int k = 0; k < 2; k++)
            if (strstr(diag.text, rows[i].texts[k]) == NULL)
                fail_msg("row %zu: no '%s' in: %s", i, rows[i].texts[k], diag.text);
        assert_null(strchr(diag.text, '\n'));
        got = run_once(session, true);
        assert_true(same(&got, &known.result_a));
    }
    assert_int_equal(inlay_session_update(session, 0, NULL, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_session_update(session, 1, NULL, NULL, &diag), INLAY_INVALID_ARGUMENT);
    inlay_value_unref(good);
    inlay_value_unref(wrong);
    inlay_value_unref(integers);
    inlay_value_unref(list);
    inlay_session_destroy(session);
}

/* The shape of an output depends on an initializer: other elements are refused if they change it. */
static void test_interface(void **state)
{
    const int64_t shape[] = { 4, 4 }, changed[] = { 2, 8 }, impossible[] = { 3, 3 }, two[] = { 2 };
    static onnx_bytes graph, file;
    inlay_session *session;
    inlay_value *value;
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *name = "shape";

    (void)state;
    onnx_input(&graph, "x", INLAY_FLOAT, 2, value_dims);
    onnx_constant(&graph, "shape", INLAY_INT64, 1, two, shape, sizeof shape);
    onnx_node(&graph, "Reshape", "", "x,shape", "y");
    onnx_output(&graph, "y", INLAY_FLOAT, 2, shape);
    assert_int_equal(onnx_file(&file, &graph, 17, NULL), 0);
    session = open_model(&file, NULL);
    assert_int_equal(inlay_value_create(INLAY_INT64, 1, two, &value, &diag), INLAY_OK);
    memcpy(inlay_value_data(value), impossible, sizeof impossible);
    assert_int_not_equal(inlay_session_update(session, 1, &name, &value, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "'shape'"));
    memcpy(inlay_value_data(value), changed, sizeof changed);
    assert_int_not_equal(inlay_session_update(session, 1, &name, &value, &diag), INLAY_OK);
    assert_non_null(strstr(diag.text, "'shape'"));
    memcpy(inlay_value_data(value), shape, sizeof shape);
    assert_int_equal(inlay_session_update(session, 1, &name, &value, &diag), INLAY_OK);
    inlay_value_unref(value);
    inlay_session_destroy(session);
}

/* A tensor of strings, which the optimiser folds: y = Gather(words, [1, 0]). */
static void test_strings(void **state)
{
    const inlay_str words[] = { { "a", 1 }, { "bc", 2 } }, others[] = { { "", 0 }, { "a longer word", 13 } };
    const int64_t two[] = { 2 }, picked[] = { 1, 0 };
    static onnx_bytes graph, file;
    const char *name = "words";
    inlay_session *session;
    inlay_context *context;
    inlay_value *value;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    onnx_constant(&graph, name, INLAY_STRING, 1, two, words, sizeof words);
    onnx_constant(&graph, "picked", INLAY_INT64, 1, two, picked, sizeof picked);
    onnx_node(&graph, "Gather", "", "words,picked", "y");
    onnx_output(&graph, "y", INLAY_STRING, 1, two);
    assert_int_equal(onnx_file(&file, &graph, 17, NULL), 0);
    session = open_model(&file, NULL);
    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    assert_int_equal(inlay_value_create_strings(1, two, others, &value, &diag), INLAY_OK);
    for (int updated = 0; updated < 2; updated++) {
        const inlay_str *want = updated != 0 ? others : words, *got;

        if (updated != 0)
            assert_int_equal(inlay_session_update(session, 1, &name, &value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
        got = inlay_value_data(inlay_context_output(context, 0));
        for (int i = 0; i < 2; i++) {
            assert_int_equal(got[i].bytes, want[1 - i].bytes);
            assert_memory_equal(got[i].data, want[1 - i].data, (size_t)got[i].bytes);
        }
    }
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

/* A context that measures keeps its weights until that ends; an explanation of what it measured is refused. */
static void test_measured(void **state)
{
    static struct fixture known;
    inlay_session *session;
    inlay_context *context;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct result got;

    (void)state;
    make_fixture(&known);
    session = open_model(&known.file, NULL);
    context = make_context(session, true);
    assert_int_equal(inlay_context_measure(context, 1, &diag), INLAY_OK);
    got = run(context);
    assert_true(same(&got, &known.result_a));
    assert_int_equal(update(session, &known.b, known.all, &diag), INLAY_OK);
    got = run(context);
    assert_true(same(&got, &known.result_a));
    assert_int_equal(inlay_context_measure(context, 0, &diag), INLAY_OK);
    got = run(context);
    assert_true(same(&got, &known.result_b));
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

/* Two products on provider reference, whose regions are single nodes: only the one with the changed weight is compiled
 * again. */
static void test_regions_stay(void **state)
{
    static onnx_bytes graph, file;
    static update_model model;
    uint64_t contents[MAX_WEIGHTS] = { 1, 2 };
    const bool second[MAX_WEIGHTS] = { false, true };
    inlay_session *session;
    inlay_context *context;
    const inlay_compiled *first;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    model.contents = contents;
    (void)snprintf(model.at, sizeof model.at, "x");
    onnx_input(&graph, "x", INLAY_FLOAT, 2, value_dims);
    onnx_input(&graph, "c", INLAY_BOOL, 0, NULL);
    for (int i = 0; i < 2; i++) {
        add_node(&model, &graph, "MatMul", add_weight(&model, &graph, INLAY_FLOAT, 2, square_dims));
        add_node(&model, &graph, "Relu", "");
    }
    onnx_output(&graph, model.at, INLAY_FLOAT, 2, value_dims);
    assert_int_equal(onnx_file(&file, &graph, 17, NULL), 0);
    session = open_model(&file, "reference");
    context = make_context(session, true);
    (void)run(context);
    assert_true(session->main->step_count >= 3);
    first = session->main->steps[0].compiled;
    for (int i = 0; i < 4; i++) {
        uint32_t stayed = 0;

        contents[1] = 100 + (uint64_t)i;
        assert_int_equal(update(session, &model, second, &diag), INLAY_OK);
        for (uint32_t k = 0; k < session->main->step_count; k++)
            stayed += session->main->steps[k].share != NULL;
        assert_int_equal(stayed, session->main->step_count - 1);
        assert_ptr_equal(session->main->steps[0].compiled, first);
        (void)run(context);
    }
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

/* y = x * w + v; w is external data: the file "weights". */
static const float external_w[WIDTH] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const model_weight external_v = {
    .name = "v", .dtype = INLAY_FLOAT, .rank = 1, .dims = { WIDTH }, .count = WIDTH
};

static void make_external(onnx_bytes *file)
{
    static onnx_bytes graph, tensor, entry;

    graph = tensor = entry = (onnx_bytes){ .count = 0 };
    onnx_number(&tensor, 1, WIDTH);
    onnx_number(&tensor, 2, INLAY_FLOAT);
    onnx_text(&tensor, 8, "w");
    onnx_text(&entry, 1, "location");
    onnx_text(&entry, 2, "weights");
    onnx_message(&tensor, 13, &entry);
    onnx_number(&tensor, 14, 1);
    onnx_message(&graph, 5, &tensor);
    onnx_constant(&graph, "v", INLAY_FLOAT, 1, external_v.dims, external_w, sizeof external_w);
    onnx_input(&graph, "x", INLAY_FLOAT, 2, value_dims);
    onnx_input(&graph, "c", INLAY_BOOL, 0, NULL);
    onnx_node(&graph, "Mul", "", "x,w", "t");
    onnx_node(&graph, "Add", "", "t,v", "y");
    onnx_output(&graph, "y", INLAY_FLOAT, 2, value_dims);
    assert_int_equal(onnx_file(file, &graph, 17, NULL), 0);
}

/* Replaces v, then w, then both by what they were. Returns the first result. */
static struct result update_external(inlay_session *session)
{
    const char *const names[] = { "v", "w" };
    inlay_context *context = make_context(session, true);
    inlay_value *values[2];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct result before = run(context), after, again;

    values[0] = weight_value(&external_v, 1);
    values[1] = weight_value(&external_v, 2);
    if (inlay_session_update(session, 1, names, values, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    after = run(context);
    assert_false(same(&before, &after));
    if (inlay_session_update(session, 1, names + 1, values + 1, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    again = run(context);
    assert_false(same(&after, &again));
    memcpy(inlay_value_data(values[0]), external_w, sizeof external_w);
    memcpy(inlay_value_data(values[1]), external_w, sizeof external_w);
    if (inlay_session_update(session, 2, names, values, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    again = run(context);
    assert_true(same(&before, &again));
    inlay_value_unref(values[0]);
    inlay_value_unref(values[1]);
    inlay_context_destroy(context);
    return before;
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *out = fopen(path, "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(data, bytes, 1, out), 1);
    (void)fclose(out);
}

/* External data stays mapped: the file may be gone when another weight is replaced. External data in memory gives the
 * same results, comes before the file, and needs no folder. */
static void test_external_data(void **state)
{
    static onnx_bytes file;
    char folder[] = "/tmp/inlay_update_XXXXXX", path[64], data_path[64], optimized[64];
    const float zeros[WIDTH] = { 0 };
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;
    inlay_session *session = NULL;
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct result from_file, from_memory;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    (void)snprintf(data_path, sizeof data_path, "%s/weights", folder);
    (void)snprintf(optimized, sizeof optimized, "%s/optimized.onnx", folder);
    make_external(&file);
    write_file(path, file.data, file.count);
    write_file(data_path, external_w, sizeof external_w);
    if (inlay_session_create(path, NULL, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    (void)unlink(data_path);
    from_file = update_external(session);
    inlay_session_destroy(session);

    write_file(data_path, zeros, sizeof zeros);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set_file(options, "", zeros, 1, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_options_set_file(options, "./weights", zeros, sizeof zeros, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set_file(options, "other", zeros, sizeof zeros, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set_file(options, "./weights", NULL, 0, &diag), INLAY_OK);
    assert_int_equal(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "weights"));
    assert_int_equal(inlay_options_set_file(options, "./weights", external_w, 8, &diag), INLAY_OK);
    assert_int_equal(inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag),
                     INLAY_INVALID_MODEL); /* too short */
    assert_int_equal(inlay_options_set_file(options, "./weights", external_w, sizeof external_w, &diag), INLAY_OK);
    args.out_path = optimized;
    assert_int_equal(inlay_optimize(path, options, &args, &diag), INLAY_OK);
    args.data = file.data;
    args.data_bytes = file.count;
    assert_int_equal(inlay_optimize(path, options, &args, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_optimize(NULL, options, &args, &diag), INLAY_OK);
    for (int i = 0; i < 3; i++) {
        const inlay_status status =
            i == 0   ? inlay_session_create(path, options, &session, &diag)
            : i == 1 ? inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag)
                     : inlay_session_create(optimized, NULL, &session, &diag);

        if (status != INLAY_OK)
            fail_msg("%d: %s", i, diag.text);
        if (i == 1)
            inlay_options_destroy(options);
        from_memory = i < 2 ? update_external(session) : run_once(session, true); /* the optimiser merges v and w */
        assert_true(same(&from_file, &from_memory));
        inlay_session_destroy(session);
    }
    (void)unlink(path);
    (void)unlink(data_path);
    (void)unlink(optimized);
    (void)rmdir(folder);
}

/* After 1,000 updates the process has the memory that it had after 100. */
static void test_memory(void **state)
{
    static struct fixture known;
    const uint64_t most = 64 << 10; /* a leak of the smallest weight in each update would be more */
    inlay_session *session;
    inlay_context *context;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t before = 0, after;

    (void)state;
    make_fixture(&known);
    session = open_model(&known.file, NULL);
    context = make_context(session, true);
    for (int i = 0; i < 1000; i++) {
        bool some[MAX_WEIGHTS];

        if (i == 100)
            before = heap_bytes();
        for (uint32_t k = 0; k < MAX_WEIGHTS; k++)
            some[k] = (k + (uint32_t)i) % 3 != 0;
        if (update(session, i % 2 == 0 ? &known.b : &known.a, some, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        if (i % 10 == 0)
            (void)run(context);
    }
    after = heap_bytes();
    if (after > before + most)
        fail_msg("%llu bytes more", (unsigned long long)(after - before));
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),          cmocka_unit_test(test_runs_during_updates),
        cmocka_unit_test(test_concurrent_updates), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_interface),          cmocka_unit_test(test_strings),
        cmocka_unit_test(test_measured),           cmocka_unit_test(test_regions_stay),
        cmocka_unit_test(test_external_data),      cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
