/* States that a context keeps: results are bitwise equal to those of a caller that passes outputs as inputs, after
 * rewinding, forking, saving and growing. A provider that appends in place copies nothing. */
#include "graph_script.h"
#include "level.h"
#include "session/session.h"

enum { HEADS = 4, SHARED = 2, SIZE = 16, MOST = 400 };

/* One attention layer with a past, two query heads per key head. */
static const char attention[] =
    "q : B,4,S,16\nn : B,2,S,16\nu : B,2,S,16\nm : S,T\npast_0 : B,2,P,16\npast_1 : B,2,P,16\n"
    "present_0 = Concat(past_0, n) axis=2\npresent_1 = Concat(past_1, u) axis=-2\n"
    "y = Attention(q, present_0, present_1, m)\n-> y, present_0, present_1";
/* A state that is replaced, with names that need option state. */
static const char layer[] = "x : B,8\nold : B,8\na = Add(x, old)\nnew = Tanh(a)\ny = Mul(new, x)\n-> y, new";

static const char *const providers[] = { "cpu,reference", "reference" };
enum { PROVIDERS = sizeof providers / sizeof providers[0] };

/* Returns false if the provider is not built. more: pairs of options, ended by NULL; or NULL. */
static bool try_open_with(const char *text, const char *names, const char *const *more, struct rig *out)
{
    const char *options[40] = { "providers", names, "policy", "priority", "intra_threads", "1" };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };

    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        assert_true(6 + i < sizeof options / sizeof options[0] - 1);
        options[6 + i] = more[i];
    }
    script_model(&wire, 23, text);
    if (rig_try_open(&wire, options, out, &diag) == INLAY_OK)
        return true;
    if (strstr(diag.text, "no provider 'cpu'") == NULL)
        fail_msg("%s", diag.text);
    rig_close(out);
    return false;
}

static bool try_open(const char *text, const char *names, const char *state, struct rig *out)
{
    return try_open_with(text, names, (const char *const[]){ state != NULL ? "state" : NULL, state, NULL }, out);
}

/* Binds tokens [at, at + rows) of a sequence; their values depend only on their positions. */
static void bind_tokens(struct rig *rig, int64_t batch, int64_t at, int64_t rows)
{
    const int64_t dims[] = { batch, 0, rows, SIZE };
    inlay_value *mask = NULL;

    for (uint32_t i = 0; i < 3; i++) {
        int64_t own[4];
        inlay_value *value = NULL;

        memcpy(own, dims, sizeof own);
        own[1] = i == 0 ? HEADS : SHARED;
        assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, own, &value, NULL), INLAY_OK);
        for (int64_t b = 0; b < batch * own[1]; b++)
            for (int64_t token = 0; token < rows; token++) {
                uint64_t seed = (uint64_t)(((at + token) * 31 + b) * 5 + i);

                for (int64_t e = 0; e < SIZE; e++)
                    ((float *)inlay_value_data(value))[(b * rows + token) * SIZE + e] = 2 * random_signed(&seed);
            }
        rig_bind(rig, i, value);
    }
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ rows, at + rows }, &mask, NULL), INLAY_OK);
    for (int64_t token = 0; token < rows; token++)
        for (int64_t k = at + token + 1; k < at + rows; k++)
            ((float *)inlay_value_data(mask))[token * (at + rows) + k] = -1e30f;
    rig_bind(rig, 3, mask);
}

/* Runs with the kept states and returns y. */
static inlay_value *step(struct rig *rig, int64_t batch, int64_t at, int64_t rows)
{
    bind_tokens(rig, batch, at, rows);
    assert_int_equal(inlay_context_state_length(rig->context), at);
    rig_run(rig);
    assert_int_equal(inlay_context_state_length(rig->context), at + rows);
    return inlay_value_ref(inlay_context_output(rig->context, 0));
}

/* Runs with a past that the caller passes, and returns y. */
static inlay_value *run_with_passed_states(struct rig *rig, int64_t batch, int64_t at, int64_t rows)
{
    bind_tokens(rig, batch, at, rows);
    for (uint32_t i = 0; i < 2; i++) {
        inlay_value *past = at > 0 ? inlay_value_ref(inlay_context_output(rig->context, 1 + i)) : NULL;

        if (at == 0)
            assert_int_equal(
                inlay_value_create(INLAY_FLOAT, 4, (const int64_t[]){ batch, SHARED, 0, SIZE }, &past, NULL), INLAY_OK);
        rig_bind(rig, 4 + i, past);
    }
    rig_run(rig);
    return inlay_value_ref(inlay_context_output(rig->context, 0));
}

static void same_bits(inlay_value *left, inlay_value *right)
{
    assert_int_equal(inlay_value_bytes(left), inlay_value_bytes(right));
    assert_memory_equal(inlay_value_data(left), inlay_value_data(right), (size_t)inlay_value_bytes(left));
    inlay_value_unref(left);
    inlay_value_unref(right);
}

static void keep(struct rig *rig, uint64_t rows)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_keep_states(rig->context, rows, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

/* A prompt, single tokens beyond the reserved room, and several at once. */
static void equal_to_passed_states(void **state)
{
    static const int64_t rows[] = { 5, 1, 1, 1, 70, 1, 1, 3, 1, 200, 1, 1 };

    (void)state;
    for (uint32_t p = 0; p < 2 * PROVIDERS; p++) {
        const int64_t batch = 1 + p / PROVIDERS;
        int64_t at = 0;
        struct rig kept, other;

        if (!try_open(attention, providers[p % PROVIDERS], NULL, &kept) ||
            !try_open(attention, providers[p % PROVIDERS], NULL, &other))
            continue;
        keep(&kept, 0);
        for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; at += rows[i++]) {
            inlay_value *a = step(&kept, batch, at, rows[i]), *b = run_with_passed_states(&other, batch, at, rows[i]);

            same_bits(a, b);
            for (uint32_t k = 0; k < 2; k++) {
                inlay_value *now = NULL;

                assert_int_equal(inlay_context_state_get(kept.context, k, &now, NULL), INLAY_OK);
                same_bits(now, inlay_value_ref(inlay_context_output(other.context, 1 + k)));
            }
        }
        rig_close(&kept);
        rig_close(&other);
    }
}

/* In-place appending gives the results of the plain operators. */
static void equal_to_the_reference(void **state)
{
    static const int64_t rows[] = { 7, 1, 1, 4, 1, 90, 1 };
    struct rig fast, plain;
    int64_t at = 0;

    (void)state;
    if (!try_open(attention, providers[0], NULL, &fast))
        skip();
    assert_true(try_open(attention, providers[1], NULL, &plain));
    keep(&fast, 0);
    keep(&plain, 0);
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; at += rows[i++]) {
        inlay_value *got = step(&fast, 2, at, rows[i]), *want = step(&plain, 2, at, rows[i]);

        for (int64_t k = 0; k < inlay_value_count(want); k++)
            assert_float_equal(((float *)inlay_value_data(got))[k], ((float *)inlay_value_data(want))[k], 1e-5f);
        inlay_value_unref(got);
        inlay_value_unref(want);
    }
    rig_close(&fast);
    rig_close(&plain);
}

static void state_pairs_are_found(void **state)
{
    inlay_state_info info = { .struct_size = sizeof info };

    (void)state;
    for (uint32_t provider = 0; provider < PROVIDERS; provider++) {
        struct rig rig;

        if (!try_open(attention, providers[provider], NULL, &rig))
            continue;
        assert_int_equal(inlay_session_state_count(rig.session), 2);
        assert_int_equal(inlay_session_state(rig.session, 1, &info), INLAY_OK);
        assert_int_equal(info.input, 5);
        assert_int_equal(info.output, 2);
        assert_int_equal(info.axis, 2);
        assert_true(info.in_place == 0 || provider == 0);
        assert_true(info.in_place == 1 || provider != 0 || level_is_low());
        assert_int_equal(inlay_session_state(rig.session, 2, &info), INLAY_NOT_FOUND);
        keep(&rig, 0);
        inlay_value_unref(step(&rig, 1, 0, 3));
        assert_true((inlay_context_output(rig.context, 2) == NULL) == (info.in_place == 1));
        rig_close(&rig);
    }
}

static void rewound_and_forked(void **state)
{
    (void)state;
    for (uint32_t provider = 0; provider < PROVIDERS; provider++) {
        inlay_value *first[MOST] = { NULL };
        inlay_context *branch = NULL, *main_context;
        struct rig rig;

        if (!try_open(attention, providers[provider], NULL, &rig))
            continue;
        keep(&rig, 0);
        inlay_value_unref(step(&rig, 2, 0, 7));
        for (int64_t t = 7; t < 80; t++)
            first[t] = step(&rig, 2, t, 1);
        for (int64_t to = 70; to >= 7; to -= 21) {
            assert_int_equal(inlay_context_state_rewind(rig.context, to, NULL), INLAY_OK);
            for (int64_t t = to; t < to + 5; t++)
                same_bits(step(&rig, 2, t, 1), inlay_value_ref(first[t]));
        }
        assert_int_equal(inlay_context_create(rig.session, &branch, NULL), INLAY_OK);
        assert_int_equal(inlay_context_state_fork(branch, rig.context, NULL), INLAY_INVALID_ARGUMENT);
        main_context = rig.context;
        rig.context = branch;
        keep(&rig, 0);
        assert_int_equal(inlay_context_state_fork(branch, main_context, NULL), INLAY_OK);
        same_bits(step(&rig, 2, 12, 1), inlay_value_ref(first[12]));
        rig.context = main_context; /* does not depend on the branch */
        same_bits(step(&rig, 2, 12, 1), inlay_value_ref(first[12]));
        same_bits(step(&rig, 2, 13, 1), inlay_value_ref(first[13]));
        assert_int_equal(inlay_context_state_rewind(rig.context, 0, NULL), INLAY_OK);
        inlay_value_unref(step(&rig, 1, 0, 4)); /* another sequence with another batch size */
        assert_int_equal(inlay_context_state_rewind(rig.context, 5, NULL), INLAY_INVALID_ARGUMENT);
        inlay_context_destroy(branch);
        for (uint32_t t = 0; t < MOST; t++)
            inlay_value_unref(first[t]);
        rig_close(&rig);
    }
}

static void saved_and_restored(void **state)
{
    (void)state;
    for (uint32_t provider = 0; provider < PROVIDERS; provider++) {
        inlay_value *saved[2] = { NULL }, *wrong = NULL;
        struct rig rig, other;

        if (!try_open(attention, providers[provider], NULL, &rig) ||
            !try_open(attention, providers[provider], NULL, &other))
            continue;
        keep(&rig, 256);
        keep(&other, 16);
        assert_int_equal(inlay_context_state_get(rig.context, 0, &saved[0], NULL), INLAY_NOT_FOUND);
        inlay_value_unref(step(&rig, 1, 0, 9));
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(inlay_context_state_get(rig.context, k, &saved[k], NULL), INLAY_OK);
            assert_int_equal(inlay_value_dims(saved[k])[2], 9);
            assert_int_equal(inlay_context_state_set(other.context, k, saved[k], NULL), INLAY_OK);
            inlay_value_unref(saved[k]);
        }
        same_bits(step(&rig, 1, 9, 2), step(&other, 1, 9, 2));
        assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, (const int64_t[]){ 1, 3, 9, SIZE }, &wrong, NULL),
                         INLAY_OK);
        assert_int_equal(inlay_context_state_set(other.context, 0, wrong, NULL), INLAY_SHAPE_MISMATCH);
        assert_int_equal(inlay_context_state_set(other.context, 2, wrong, NULL), INLAY_INVALID_ARGUMENT);
        inlay_value_unref(wrong);
        rig_close(&rig);
        rig_close(&other);
    }
}

/* GroupQueryAttention as exporters write it: the row sums of a mask are the numbers of valid keys of the sequences, its
 * width is the number of positions. Sequences of a batch may have shorter prompts than others; new tokens follow the
 * last token of each sequence. */
static const char query_groups[] =
    "q : B,S,64\nk : B,S,32\nv : B,S,32\npast_0 : B,2,P,16\npast_1 : B,2,P,16\nmask : B,T\naxis = i[1] 1\n"
    "one = [] 1.0\nsum = ReduceSum(mask, axis) keepdims=0\nless = Sub(sum, one)\nl = Cast(less) to=6\n"
    "shape = Shape(mask)\nat = i[] 1\nlong = Gather(shape, at)\nt = Cast(long) to=6\n"
    "y, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, l, t) num_heads=4 kv_num_heads=2\n"
    "-> y, present_0, present_1";

/* Two layers: the second reads the result of the first, whose rows are those of tokens. */
static const char query_layers[] =
    "ids : int64 B,S\npast_0 : B,2,P,16\npast_1 : B,2,P,16\npast_2 : B,2,P,16\npast_3 : B,2,P,16\nmask : B,T\n"
    "axis = i[1] 1\none = [] 1.0\nsum = ReduceSum(mask, axis) keepdims=0\n"
    "less = Sub(sum, one)\nl = Cast(less) to=6\nshape = Shape(mask)\nat = i[] 1\nlong = Gather(shape, at)\n"
    "t = Cast(long) to=6\ntable = [90,64]\nx0 = Gather(table, ids)\n"
    "w = [64,64]\nw2 = [64,32]\nq = MatMul(x0, w)\nk = MatMul(x0, w2)\nv = MatMul(x0, w2)\n"
    "x, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, l, t) num_heads=4 kv_num_heads=2\n"
    "q2 = MatMul(x, w)\nk2 = MatMul(x, w2)\nv2 = MatMul(x, w2)\n"
    "y, present_2, present_3 = ms.GroupQueryAttention(q2, k2, v2, past_2, past_3, l, t) num_heads=4 "
    "kv_num_heads=2 smooth_softmax=1\n"
    "-> y, present_0, present_1, present_2, present_3";

/* The later layers compute the places of new rows from the sizes of the first, so that each state is appended by one
 * region. */
static void all_layers_in_place(void **state)
{
    inlay_state_info info = { .struct_size = sizeof info };
    struct rig rig;

    (void)state;
    if (level_is_low() || !try_open(query_layers, providers[0], NULL, &rig))
        skip();
    assert_int_equal(inlay_session_state_count(rig.session), 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(inlay_session_state(rig.session, k, &info), INLAY_OK);
        if (info.in_place != 1)
            fail_msg("state %u is copied", k);
    }
    rig_close(&rig);
}

/* Appends stay in one region if provider reference runs any of the nodes that compute positions and masks, in the order
 * of the graph or in another one. */
static void in_place_with_any_provider(void **state)
{
    static const char *const ops[] = { "Shape", "Gather", "Cast",    "Max",       "Sub",   "Equal",      "Where",
                                       "Range", "Add",    "Reshape", "Unsqueeze", "Slice", "LessOrEqual" };
    enum { OPS = sizeof ops / sizeof ops[0], SETS = 24 };
    inlay_state_info info = { .struct_size = sizeof info };
    char pins[OPS][40];
    uint64_t seed = 5;

    (void)state;
    if (level_is_low())
        skip();
    for (uint32_t i = 0; i < OPS; i++)
        (void)snprintf(pins[i], sizeof pins[i], "op:%s=reference", ops[i]);
    for (uint32_t set = 0; set < SETS; set++) {
        const char *more[2 * OPS + 3] = { "policy", "cost" };
        uint32_t count = 2;
        struct rig rig;

        for (uint32_t i = 0; i < OPS; i++)
            if (set == i || random_below(&seed, 3) == 0) {
                more[count++] = "pin";
                more[count++] = pins[i];
            }
        more[count] = NULL;
        if (!try_open_with(query_layers, providers[0], more, &rig))
            skip();
        assert_int_equal(inlay_session_state_count(rig.session), 4);
        for (uint32_t k = 0; k < 4; k++) {
            assert_int_equal(inlay_session_state(rig.session, k, &info), INLAY_OK);
            if (info.in_place != 1)
                fail_msg("set %u: state %u is copied", set, k);
        }
        rig_close(&rig);
    }
}

enum { GQA_MOST = 3, GQA_MASK = 5 };

/* Runs `rows` positions after `at` positions. Sequence b has fewer_tokens[b] tokens fewer than the longest sequence. */
static inlay_value *run_groups(struct rig *rig, bool kept, int64_t batch, const int64_t *fewer_tokens, int64_t at,
                               int64_t rows)
{
    inlay_value *mask = NULL;

    for (uint32_t i = 0; i < 3; i++) {
        const int64_t wide = (i == 0 ? HEADS : SHARED) * SIZE;
        inlay_value *value = NULL;

        assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, (const int64_t[]){ batch, rows, wide }, &value, NULL),
                         INLAY_OK);
        for (int64_t t = 0; t < batch * rows; t++) {
            uint64_t seed = (uint64_t)(((at + t % rows) * 3 + i) * 7 + t / rows);

            for (int64_t e = 0; e < wide; e++)
                ((float *)inlay_value_data(value))[t * wide + e] = 2 * random_signed(&seed);
        }
        rig_bind(rig, i, value);
    }
    for (uint32_t i = 0; !kept && i < 2; i++) {
        inlay_value *past = at > 0 ? inlay_value_ref(inlay_context_output(rig->context, 1 + i)) : NULL;

        if (at == 0)
            assert_int_equal(
                inlay_value_create(INLAY_FLOAT, 4, (const int64_t[]){ batch, SHARED, 0, SIZE }, &past, NULL), INLAY_OK);
        rig_bind(rig, 3 + i, past);
    }
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ batch, at + rows }, &mask, NULL), INLAY_OK);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0; t < at + rows; t++)
            ((float *)inlay_value_data(mask))[b * (at + rows) + t] = t < at + rows - fewer_tokens[b] ? 1 : 0;
    rig_bind(rig, GQA_MASK, mask);
    rig_run(rig);
    return inlay_value_ref(inlay_context_output(rig->context, 0));
}

static void group_query_attention(void **state)
{
    static const int64_t none[GQA_MOST] = { 0 }, some[GQA_MOST] = { 2, 0, 4 };

    (void)state;
    for (uint32_t p = 0; p < 3 * PROVIDERS; p++) {
        const int64_t batch = p / PROVIDERS < 2 ? 1 + 2 * (p / PROVIDERS) : 3,
                      *fewer_tokens = p < 2 * PROVIDERS ? none : some;
        inlay_state_info info = { .struct_size = sizeof info };
        inlay_value *middle = NULL;
        struct rig kept, other;
        int64_t at = 0;

        if (!try_open(query_groups, providers[p % PROVIDERS], NULL, &kept) ||
            !try_open(query_groups, providers[p % PROVIDERS], NULL, &other))
            continue;
        keep(&kept, 0);
        assert_int_equal(inlay_session_state(kept.session, 1, &info), INLAY_OK);
        assert_true(info.in_place == 1 || p % PROVIDERS != 0 || level_is_low());
        for (int64_t rows = 6; at < 90; at += rows, rows = 1) {
            inlay_value *value = run_groups(&kept, true, batch, fewer_tokens, at, rows);

            middle = at == 40 ? inlay_value_ref(value) : middle;
            same_bits(value, run_groups(&other, false, batch, fewer_tokens, at, rows));
            for (uint32_t k = 0; k < 2; k++) {
                inlay_value *now = NULL;

                assert_int_equal(inlay_context_state_get(kept.context, k, &now, NULL), INLAY_OK);
                same_bits(now, inlay_value_ref(inlay_context_output(other.context, 1 + k)));
            }
        }
        assert_int_equal(inlay_context_state_rewind(kept.context, 40, NULL), INLAY_OK);
        same_bits(run_groups(&kept, true, batch, fewer_tokens, 40, 1), inlay_value_ref(middle));
        inlay_value_unref(middle);
        rig_close(&kept);
        rig_close(&other);
    }
}

/* The attention kernel gives the results of the plain operators for sequences of different lengths. */
static void group_query_attention_is_right(void **state)
{
    static const int64_t fewer_tokens[GQA_MOST] = { 2, 0, 4 };
    struct rig fast, plain;
    int64_t at = 0;

    (void)state;
    if (!try_open(query_groups, providers[0], NULL, &fast))
        skip();
    assert_true(try_open(query_groups, providers[1], NULL, &plain));
    keep(&fast, 0);
    keep(&plain, 0);
    for (int64_t rows = 6; at < 20; at += rows, rows = 1) {
        inlay_value *a = run_groups(&fast, true, 3, fewer_tokens, at, rows),
                    *b = run_groups(&plain, true, 3, fewer_tokens, at, rows);

        for (int64_t k = 0; k < inlay_value_count(b); k++)
            assert_float_equal(((float *)inlay_value_data(a))[k], ((float *)inlay_value_data(b))[k], 1e-5f);
        inlay_value_unref(a);
        inlay_value_unref(b);
    }
    rig_close(&fast);
    rig_close(&plain);
}

/* Once the states have enough room, a run allocates no memory for them, because they stay in place. */
static void states_need_no_further_memory(void **state)
{
    inlay_memory_info before = { .struct_size = sizeof before }, after = before;
    struct rig rig;

    (void)state;
    if (level_is_low() || !try_open(attention, providers[0], NULL, &rig))
        skip();
    keep(&rig, MOST);
    for (int64_t t = 0; t < MOST; t++) {
        inlay_value_unref(step(&rig, 1, t, 1));
        if (t == 3)
            (void)inlay_session_memory(rig.session, &before);
    }
    (void)inlay_session_memory(rig.session, &after);
    assert_true(after.used_bytes < before.used_bytes + (1 << 16));
    rig_close(&rig);
}

static void replaced_states(void **state)
{
    float x[16], want[16] = { 0 };
    struct rig rig;

    (void)state;
    assert_true(try_open(layer, "reference", "old=new", &rig));
    keep(&rig, 0);
    for (uint32_t round = 0; round < 2; round++) {
        memset(want, 0, sizeof want);
        for (uint32_t t = 0; t < 5; t++) {
            for (uint32_t i = 0; i < 16; i++) {
                x[i] = 0.1f * (float)(i + t);
                want[i] = tanhf(x[i] + want[i]);
            }
            rig_floats(&rig, 0, "2,8", x);
            rig_run(&rig);
            for (uint32_t i = 0; i < 16; i++)
                assert_float_equal(((float *)inlay_value_data(inlay_context_output(rig.context, 1)))[i], want[i],
                                   1e-6f);
        }
        assert_int_equal(inlay_context_state_length(rig.context), 0);
        assert_int_equal(inlay_context_state_rewind(rig.context, 0, NULL), INLAY_OK);
    }
    rig_close(&rig);
}

/* A reference to an output keeps its value after later runs. */
static void referenced_outputs_are_stable(void **state)
{
    inlay_value *held;
    float x[8] = { 1, 2, 3 }, copy[8];
    struct rig rig;

    (void)state;
    assert_true(try_open(layer, "reference", "old=new", &rig));
    keep(&rig, 0);
    rig_floats(&rig, 0, "1,8", x);
    rig_run(&rig);
    held = inlay_value_ref(inlay_context_output(rig.context, 1));
    memcpy(copy, inlay_value_data(held), sizeof copy);
    for (int i = 0; i < 5; i++)
        rig_run(&rig);
    assert_memory_equal(inlay_value_data(held), copy, sizeof copy);
    inlay_value_unref(held);
    rig_close(&rig);
}

static void error_messages(void **state)
{
    static const struct {
        const char *option, *part;
    } wrong[] = { { "old", "not INPUT=OUTPUT" },
                  { "missing=new", "matches no input" },
                  { "*=new=y", "not INPUT=OUTPUT" },
                  { "old=nothing", "matches no input" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *options[] = { "state", wrong[i].option, NULL };
        struct wire wire = { 0 };

        script_model(&wire, 17, layer);
        assert_int_equal(rig_try_open(&wire, options, &rig, &diag), INLAY_INVALID_ARGUMENT);
        if (strstr(diag.text, wrong[i].part) == NULL)
            fail_msg("%s: %s", wrong[i].option, diag.text);
        rig_close(&rig);
    }
    assert_true(try_open(layer, "reference", NULL, &rig));
    assert_int_equal(inlay_context_keep_states(rig.context, 0, &diag), INLAY_NOT_FOUND);
    assert_int_equal(inlay_context_state_rewind(rig.context, 0, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "keep_states"));
    rig_close(&rig);
    assert_true(try_open(layer, "reference", "old=new", &rig));
    rig_floats(&rig, 0, "1,8", (float[8]){ 0 });
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_INVALID_ARGUMENT); /* no state is kept
                                                                                            * without the request */
    assert_non_null(strstr(diag.text, "'old' is not bound"));
    keep(&rig, 0);
    rig_run(&rig);
    assert_int_equal(inlay_context_state_rewind(rig.context, 1, &diag), INLAY_INVALID_ARGUMENT);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_passed_states),
        cmocka_unit_test(state_pairs_are_found),
        cmocka_unit_test(rewound_and_forked),
        cmocka_unit_test(saved_and_restored),
        cmocka_unit_test(states_need_no_further_memory),
        cmocka_unit_test(replaced_states),
        cmocka_unit_test(referenced_outputs_are_stable),
        cmocka_unit_test(error_messages),
        cmocka_unit_test(group_query_attention),
        cmocka_unit_test(equal_to_the_reference),
        cmocka_unit_test(group_query_attention_is_right),
        cmocka_unit_test(all_layers_in_place),
        cmocka_unit_test(in_place_with_any_provider),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
