/* Rows of a context: texts that share runs have the logits that each has in a context of its own, with option
 * reproducible bit for bit, while rows join, leave, fork and are rewound. */
#include "base/asan.h"
#include "failing_alloc.h"
#include "graph_script.h"
#include "run_context.h"

enum { WORDS = 32, MOST_ROWS = 6, MOST_TOKENS = 400, READERS = 2 };

#define WEIGHTS                                                                                                        \
    "input_ids : int64 B,S\nattention_mask : int64 B,T\nunit = [] 1.0\none = i[1] 1\nzero = i[1] 0\n"                  \
    "words_0 = [32,16]\nwords = Sub(words_0, unit)\nx = Gather(words, input_ids)\n"                                    \
    "to_q_0 = [16,16]\nto_q = Sub(to_q_0, unit)\nto_k_0 = [16,16]\nto_k = Sub(to_k_0, unit)\n"                         \
    "to_v_0 = [16,16]\nto_v = Sub(to_v_0, unit)\nto_words_0 = [16,32]\nto_words = Sub(to_words_0, unit)\n"             \
    "q = MatMul(x, to_q)\nk = MatMul(x, to_k)\nv = MatMul(x, to_v)\n"
#define CACHE "past_0 : B,2,P,8\npast_1 : B,2,P,8\n"
#define LOGITS "both = Add(x, seen)\nlogits = MatMul(both, to_words)\n-> logits, present_0, present_1"

/* The lengths of the rows are the sums of the mask. */
static const char counted[] = CACHE WEIGHTS
    "cosines_0 = [512,4]\ncosines = Sub(cosines_0, unit)\nsines_0 = [512,4]\nsines = Sub(sines_0, unit)\n"
    "counts = ReduceSum(attention_mask, one)\nothers = Sub(counts, one)\nlengths = Cast(others) to=6\n"
    "shape = Shape(attention_mask)\nwide = Gather(shape, one)\ntotal = Cast(wide) to=6\n"
    "seen, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, lengths, total, cosines, sines) "
    "num_heads=2 kv_num_heads=2 do_rotary=1\n" LOGITS;
/* The mask hides padding. */
static const char masked[] = CACHE WEIGHTS
    "position_ids : int64 B,S\nplaces_0 = [512,16]\nplaces = Sub(places_0, unit)\nplace = Gather(places, "
    "position_ids)\n"
    "placed = Add(k, place)\naxes = i[2] 1,2\nwide = Unsqueeze(attention_mask, axes)\nvisible = Cast(wide) to=9\n"
    "seen, present_0, present_1 = Attention(q, placed, v, visible, past_0, past_1) q_num_heads=2 kv_num_heads=2 "
    "is_causal=1\n" LOGITS;
/* Attention as exporters spell it out. */
static const char spelled[] = CACHE WEIGHTS
    "heads = i[4] 0,0,2,8\nq_4 = Reshape(q, heads)\nk_4 = Reshape(k, heads)\nv_4 = Reshape(v, heads)\n"
    "q_t = Transpose(q_4) perm=0,2,1,3\nk_t = Transpose(k_4) perm=0,2,1,3\nv_t = Transpose(v_4) perm=0,2,1,3\n"
    "present_0 = Concat(past_0, k_t) axis=2\npresent_1 = Concat(past_1, v_t) axis=2\n"
    "turned = Transpose(present_0) perm=0,1,3,2\nscores = MatMul(q_t, turned)\n"
    "mask_shape = Shape(attention_mask)\nids_shape = Shape(input_ids)\nat = i[] 1\nstep = i[] 1\nfrom = i[] 0\n"
    "total = Gather(mask_shape, at)\nnew = Gather(ids_shape, at)\npast = Sub(total, new)\n"
    "columns = Range(from, total, step)\nlines = Range(past, total, step)\nline = Unsqueeze(lines, one)\n"
    "causal = LessOrEqual(columns, line)\naxes = i[2] 1,2\nwide = Unsqueeze(attention_mask, axes)\n"
    "hidden = Cast(wide) to=9\nvisible = And(causal, hidden)\nnone = [] 0.0\nmuch = [] -10000.0\n"
    "bias = Where(visible, none, much)\nbiased = Add(scores, bias)\nshares = Softmax(biased) axis=-1\n"
    "mixed = MatMul(shares, present_1)\nback = Transpose(mixed) perm=0,2,1,3\nflat = i[3] 0,0,16\n"
    "seen = Reshape(back, flat)\n" LOGITS;
/* A recurrent state: the sum of what was read. */
static const char recurrent[] =
    "past_0 : B,16\n" WEIGHTS "along = i[] 1\nsums = CumSum(k, along)\nbefore = Unsqueeze(past_0, one)\nhidden = "
    "Add(sums, before)\nbent = Tanh(hidden)\n"
    "added = ReduceSum(k, one) keepdims=0\npresent_0 = Add(past_0, added)\n"
    "logits = MatMul(bent, to_words)\n-> logits, present_0";
/* A window of the last entries: longer texts cannot be copied, since their states have not all tokens. */
static const char windowed[] = CACHE WEIGHTS
    "heads = i[4] 0,0,2,8\nk_4 = Reshape(k, heads)\nk_t = Transpose(k_4) perm=0,2,1,3\n"
    "all_0 = Concat(past_0, k_t) axis=2\nall_1 = Concat(past_1, k_t) axis=2\nfirst = i[1] -8\nend = i[1] "
    "1000\ntwo = i[1] 2\npresent_0 = Slice(all_0, first, end, two)\npresent_1 = Slice(all_1, first, end, two)\n"
    "back = Transpose(k_t) perm=0,2,1,3\nflat = i[3] 0,0,16\nseen = Reshape(back, flat)\n" LOGITS;
/* Rows of a mean over all positions cannot be told apart. */
static const char averaged[] = CACHE WEIGHTS
    "heads = i[4] 0,0,2,8\nk_4 = Reshape(k, heads)\nk_t = Transpose(k_4) perm=0,2,1,3\n"
    "present_0 = Concat(past_0, k_t) axis=2\npresent_1 = Concat(past_1, k_t) axis=2\n"
    "two = i[1] 2\nmean = ReduceMean(present_0, two)\nback = Transpose(mean) perm=0,2,1,3\nflat = i[3] 0,0,16\n"
    "seen = Reshape(back, flat)\n" LOGITS;

static const struct {
    const char *name, *text;
    uint32_t layout;
    bool rewinds;
    bool exact_in_parts; /* a state is not the sum of sums */
    bool shrinks;        /* option kv_cache_bits applies */
} decoders[] = { { "counted", counted, INLAY_ROWS_RIGHT, true, true, true },
                 { "masked", masked, INLAY_ROWS_LEFT, true, true, false },
                 { "spelled", spelled, INLAY_ROWS_LEFT, true, true, false },
                 { "recurrent", recurrent, INLAY_ROWS_RIGHT, false, false, false } };
enum { DECODERS = sizeof decoders / sizeof decoders[0] };
static const char *const providers[] = { "cpu,reference", "reference" };

/* A text: its tokens, and the context that has it alone, with states as inlay_context_keep_states() keeps them. */
struct text {
    inlay_context *alone;
    int64_t length;
};

struct world {
    struct rig rig;
    inlay_rows_info info;
    inlay_context *main, *readers[READERS];
    struct text texts[MOST_ROWS];
    uint32_t count;
    uint64_t seed;
    const char *name;
    bool rewinds, same_bits;
};

static const char *const widths[] = { "model", "8", "8/4", "4" }; /* option kv_cache_bits */
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static bool open_caches(const char *text, const char *names, bool same_bits, const char *bits, struct rig *out)
{
    const char *options[] = {
        "providers", names, "intra_threads", "1", "reproducible", same_bits ? "1" : "0", "kv_cache_bits", bits, NULL
    };
    struct wire wire = { 0 };

    script_model(&wire, 23, text);
    return rig_open_if_built(&wire, options, names, out);
}

static bool open_rig(const char *text, const char *names, bool same_bits, struct rig *out)
{
    return open_caches(text, names, same_bits, "model", out);
}

static void find_rows(const struct rig *rig, inlay_rows_info *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    *out = (inlay_rows_info){ .struct_size = sizeof *out };
    if (inlay_session_rows(rig->session, NULL, out, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static inlay_context *make_context(const struct rig *rig)
{
    inlay_context *context = NULL;

    assert_int_equal(inlay_context_create(rig->session, &context, NULL), INLAY_OK);
    return context;
}

static void set_rows(inlay_context *context, const inlay_row *rows, uint32_t count)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_set_rows(context, rows, count, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_context_row_count(context), count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(inlay_context_row_length(context, i), rows[i].length);
}

static void bind(inlay_context *context, uint32_t input, int64_t columns, const int64_t *numbers)
{
    inlay_value *value = NULL;

    if (input == INLAY_NONE)
        return;
    assert_int_equal(inlay_value_create(INLAY_INT64, 2, (const int64_t[]){ 1, columns }, &value, NULL), INLAY_OK);
    memcpy(inlay_value_data(value), numbers, (size_t)columns * sizeof *numbers);
    assert_int_equal(inlay_context_set_input(context, input, value, NULL), INLAY_OK);
    inlay_value_unref(value);
}

static const float *last_logits(inlay_context *context, const inlay_rows_info *info, uint32_t row)
{
    const inlay_value *logits = inlay_context_output(context, info->logits);
    const int64_t *dims = inlay_value_dims(logits);

    assert_true(row < dims[0]);
    return (const float *)inlay_value_data(logits) + (dims[1] * (row + 1) - 1) * dims[2];
}

/* Runs the tokens in the text's own context. */
static const float *read_alone(const struct world *world, struct text *text, const int64_t *tokens, int64_t count)
{
    int64_t numbers[MOST_TOKENS];

    assert_true(text->length + count <= MOST_TOKENS);
    bind(text->alone, world->info.tokens, count, tokens);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = text->length + i;
    bind(text->alone, world->info.positions, count, numbers);
    for (int64_t i = 0; i < text->length + count; i++)
        numbers[i] = 1;
    bind(text->alone, world->info.mask, text->length + count, numbers);
    run_context(text->alone);
    text->length += count;
    return last_logits(text->alone, &world->info, 0);
}

static void expect_logits(const struct world *world, const float *got, const float *alone)
{
    for (uint32_t i = 0; i < WORDS; i++)
        if (world->same_bits ? memcmp(&got[i], &alone[i], sizeof *got) != 0 : !(fabsf(got[i] - alone[i]) <= 1e-4f))
            fail_msg("%s: logit %u is %.9g, and alone %.9g", world->name, i, (double)got[i], (double)alone[i]);
}

/* Runs `count` random tokens of each row of the context, and compares with the texts. */
static void step(struct world *world, inlay_context *context, struct text *texts, uint32_t rows, int64_t count)
{
    int64_t tokens[MOST_ROWS * 16];
    inlay_diag diag = INLAY_DIAG_INIT;

    for (int64_t i = 0; i < rows * count; i++)
        tokens[i] = random_between(&world->seed, 0, WORDS - 1);
    if (inlay_context_set_tokens(context, tokens, count, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    run_context(context);
    for (uint32_t i = 0; i < rows; i++) {
        const float *alone = read_alone(world, &texts[i], tokens + i * count, count);

        assert_int_equal(inlay_context_row_length(context, i), texts[i].length);
        expect_logits(world, last_logits(context, &world->info, i), alone);
    }
}

static void open_world(struct world *world, uint32_t d, bool same_bits, uint64_t seed)
{
    world->name = decoders[d].name;
    world->rewinds = decoders[d].rewinds;
    world->same_bits = same_bits;
    world->seed = seed;
    world->count = 0;
    find_rows(&world->rig, &world->info);
    world->main = make_context(&world->rig);
    assert_int_equal(inlay_context_keep_rows(world->main, &world->info, 16, NULL), INLAY_OK);
    for (uint32_t i = 0; i < READERS; i++) {
        world->readers[i] = make_context(&world->rig);
        assert_int_equal(inlay_context_keep_rows(world->readers[i], &world->info, 16, NULL), INLAY_OK);
    }
}

static void close_world(struct world *world)
{
    for (uint32_t i = 0; i < world->count; i++)
        inlay_context_destroy(world->texts[i].alone);
    for (uint32_t i = 0; i < READERS; i++)
        inlay_context_destroy(world->readers[i]);
    inlay_context_destroy(world->main);
    rig_close(&world->rig);
}

/* A text begins in a reader, which reads its prompt in parts; returns its row. */
static inlay_row begin_text(struct world *world, inlay_context *reader, struct text *text)
{
    const inlay_row empty = { .context = NULL };

    *text = (struct text){ .alone = make_context(&world->rig) };
    assert_int_equal(inlay_context_keep_states(text->alone, 16, NULL), INLAY_OK);
    set_rows(reader, &empty, 1);
    for (int64_t parts = random_between(&world->seed, 1, 3); parts > 0; parts--)
        step(world, reader, text, 1, random_between(&world->seed, 1, 12));
    return (inlay_row){ .context = reader, .length = text->length };
}

/* Changes the rows of main at random: some leave, some are rewound, one is forked, others join. */
static void change_rows(struct world *world)
{
    inlay_row rows[MOST_ROWS];
    struct text texts[MOST_ROWS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < world->count; i++) {
        struct text *text = &world->texts[i];

        if (random_below(&world->seed, 6) == 0 || text->length > MOST_TOKENS / 2) {
            inlay_context_destroy(text->alone);
            continue;
        }
        if (random_below(&world->seed, 4) == 0) {
            text->length = world->rewinds ? random_between(&world->seed, 0, text->length) : 0;
            assert_int_equal(inlay_context_state_rewind(text->alone, text->length, NULL), INLAY_OK);
        }
        rows[count] = (inlay_row){ .context = world->main, .length = text->length, .row = i };
        texts[count++] = *text;
    }
    if (count > 0 && count < MOST_ROWS && random_below(&world->seed, 3) == 0) {
        const uint32_t from = (uint32_t)random_below(&world->seed, count);

        rows[count] = rows[from];
        texts[count] = (struct text){ .alone = make_context(&world->rig), .length = texts[from].length };
        assert_int_equal(inlay_context_keep_states(texts[count].alone, 16, NULL), INLAY_OK);
        assert_int_equal(inlay_context_state_fork(texts[count].alone, texts[from].alone, NULL), INLAY_OK);
        count++;
    }
    for (uint32_t i = 0; i < READERS && count < MOST_ROWS; i++)
        if (count == 0 || random_below(&world->seed, 3) == 0) {
            rows[count] = begin_text(world, world->readers[i], &texts[count]);
            count++;
        }
    for (uint32_t i = 0; count > 1 && i < 2; i++) {
        const uint32_t left = (uint32_t)random_below(&world->seed, count),
                       right = (uint32_t)random_below(&world->seed, count);
        const inlay_row row = rows[left];
        const struct text text = texts[left];

        rows[left] = rows[right];
        texts[left] = texts[right];
        rows[right] = row;
        texts[right] = text;
    }
    set_rows(world->main, rows, count);
    memcpy(world->texts, texts, count * sizeof *texts);
    world->count = count;
}

/* Padding before a row moves the terms of its sums. */
static uint32_t layout_of(uint32_t d, bool same_bits)
{
    return same_bits && decoders[d].layout == INLAY_ROWS_LEFT ? INLAY_ROWS_ALONE : decoders[d].layout;
}

static void layouts_are_found(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < DECODERS; d++)
        for (uint32_t p = 0; p < 4; p++) {
            const bool same_bits = p % 2 == 1;
            inlay_rows_info info;
            struct rig rig;

            if (!open_rig(decoders[d].text, providers[p / 2], same_bits, &rig))
                continue;
            find_rows(&rig, &info);
            if (info.layout != layout_of(d, same_bits) || info.in_parts != (!same_bits || decoders[d].exact_in_parts))
                fail_msg("%s by %s, reproducible %d: layout %u, in parts %u", decoders[d].name, providers[p / 2],
                         same_bits, info.layout, info.in_parts);
            assert_int_equal(info.tokens, inlay_session_find_input(rig.session, "input_ids"));
            assert_int_equal(info.mask, inlay_session_find_input(rig.session, "attention_mask"));
            assert_int_equal(info.positions, inlay_session_find_input(rig.session, "position_ids"));
            assert_int_equal(info.logits, inlay_session_find_output(rig.session, "logits"));
            assert_int_equal(info.token_bytes, decoders[d].rewinds ? 2 * 16 * sizeof(float) : 0);
            assert_int_equal(info.fixed_bytes, decoders[d].rewinds ? 0 : 16 * sizeof(float));
            rig_close(&rig);
        }
}

static void together_as_alone(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < DECODERS; d++)
        for (uint32_t p = 0; p < 4 * WIDTHS; p++) {
            const bool same_bits = p % 2 == 1;
            struct world world;

            if (layout_of(d, same_bits) == INLAY_ROWS_ALONE || (p >= 4 && !decoders[d].shrinks) ||
                !open_caches(decoders[d].text, providers[p / 2 % 2], same_bits, widths[p / 4], &world.rig))
                continue;
            open_world(&world, d, same_bits, 3 + d);
            for (uint32_t i = 0; i < 60; i++) {
                change_rows(&world);
                for (int64_t steps = random_between(&world.seed, 1, 4); steps > 0; steps--)
                    step(&world, world.main, world.texts, world.count, random_between(&world.seed, 1, 3));
            }
            close_world(&world);
        }
}

/* A prompt that is read in parts, or continued from a copy of its beginning, has the logits of one that is read at
 * once, with option reproducible bit for bit. */
static void parts_as_whole(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < DECODERS; d++)
        for (uint32_t p = 0; p < 4; p++) {
            const inlay_row empty = { .context = NULL };
            struct world world;

            if (!open_rig(decoders[d].text, providers[p / 2], p % 2 == 1, &world.rig))
                continue;
            open_world(&world, d, p % 2 == 1, 29 + d);
            for (uint32_t i = 0; i < 20 && world.info.in_parts == 1; i++) {
                struct text whole = { .alone = make_context(&world.rig) };
                int64_t tokens[MOST_TOKENS], read = 0;
                const int64_t count = random_between(&world.seed, 2, i % 4 == 0 ? MOST_TOKENS : 40);
                const float *logits;

                for (int64_t k = 0; k < count; k++)
                    tokens[k] = random_between(&world.seed, 0, WORDS - 1);
                assert_int_equal(inlay_context_keep_states(whole.alone, 16, NULL), INLAY_OK);
                logits = read_alone(&world, &whole, tokens, count);
                set_rows(world.main, &empty, 1);
                while (read < count) {
                    const int64_t part = random_between(&world.seed, 1, count - read);

                    assert_int_equal(inlay_context_set_tokens(world.main, tokens + read, part, NULL), INLAY_OK);
                    run_context(world.main);
                    read += part;
                    if (random_below(&world.seed, 2) == 0) {
                        const inlay_row copy = { .context = world.main, .length = read };

                        set_rows(world.readers[0], &copy, 1);
                        set_rows(world.main, &empty, 1);
                        set_rows(world.main, &(inlay_row){ .context = world.readers[0], .length = read }, 1);
                    }
                }
                expect_logits(&world, last_logits(world.main, &world.info, 0), logits);
                inlay_context_destroy(whole.alone);
            }
            close_world(&world);
        }
}

static void read_tokens(inlay_context *context, int64_t count)
{
    const int64_t tokens[MOST_ROWS * 16] = { 1, 2, 3 };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_set_tokens(context, tokens, count, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    run_context(context);
}

/* Checks that `row` has `length` entries in each head of each state, and zeros elsewhere. */
static void expect_entries(const struct world *world, uint32_t row, int64_t length)
{
    inlay_value *value = NULL;

    for (uint32_t k = 0; inlay_context_state_get(world->main, k, &value, NULL) == INLAY_OK; k++) {
        const int64_t *dims = inlay_value_dims(value); /* [rows, heads, entries, size] */

        for (int64_t head = 0; head < dims[1]; head++) {
            int64_t found = 0;

            for (int64_t entry = 0; entry < dims[2]; entry++) {
                const float *at =
                    (const float *)inlay_value_data(value) + ((row * dims[1] + head) * dims[2] + entry) * dims[3];
                bool any = false;

                for (int64_t i = 0; i < dims[3]; i++)
                    any = any || at[i] != 0;
                found += any;
            }
            if (found != length)
                fail_msg("%s: state %u, row %u has %lld entries, not %lld", world->name, k, row, (long long)found,
                         (long long)length);
        }
        inlay_value_unref(value);
    }
}

/* Entries of a text that left or was rewound are not in the padding of a shorter one: a mask hides them, but a product
 * with a mask's zero must be a number. */
static void padding_is_zero(void **state)
{
    const inlay_row empty[3] = { { .context = NULL } };

    (void)state;
    for (uint32_t d = 0; d < DECODERS; d++) {
        struct world world;
        inlay_row first;

        if (!decoders[d].rewinds || !open_rig(decoders[d].text, providers[0], false, &world.rig))
            continue;
        open_world(&world, d, false, 3);
        for (uint32_t i = 0; i < READERS; i++) {
            set_rows(world.readers[i], empty, 1);
            read_tokens(world.readers[i], i == 0 ? 2 : 10);
        }
        set_rows(world.main, empty, 3);
        for (uint32_t i = 0; i < 3; i++)
            read_tokens(world.main, 2);
        first = (inlay_row){ .context = world.main, .length = 6 };
        set_rows(world.main, (const inlay_row[]){ first, { world.main, 6, 1, 0 } }, 2);
        set_rows(world.main, (const inlay_row[]){ first, { world.main, 4, 1, 0 }, { world.readers[0], 2, 0, 0 } }, 3);
        expect_entries(&world, 1, 4);
        expect_entries(&world, 2, 2);
        /* a text of 10 tokens leaves the memory that a shorter one takes, and another one makes its entries visible */
        set_rows(world.main, (const inlay_row[]){ first, { world.readers[1], 10, 0, 0 } }, 2);
        set_rows(world.main, &first, 1);
        set_rows(world.main, (const inlay_row[]){ first, { world.readers[0], 2, 0, 0 } }, 2);
        set_rows(world.main, (const inlay_row[]){ first, { world.main, 2, 1, 0 }, { world.readers[1], 10, 0, 0 } }, 3);
        expect_entries(&world, 1, 2);
        expect_entries(&world, 2, 10);
        close_world(&world);
    }
}

/* A change of rows whose allocations fail leaves the rows as they were. */
static void failing_allocations(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < DECODERS; d++) {
        struct world world;
        bool failed = true;

        assert_true(open_rig(decoders[d].text, "reference", false, &world.rig));
        open_world(&world, d, false, 5);
        while (world.count < 2)
            change_rows(&world);
        for (uint64_t n = 0; failed; n++) {
            const inlay_row rows[] = {
                { .context = world.main, .length = inlay_context_row_length(world.main, 1), .row = 1 },
                { .context = world.main, .length = inlay_context_row_length(world.main, 0), .row = 0 }
            };
            const struct text other = world.texts[0];
            inlay_status status;

            failing_alloc_arm(n);
            status = inlay_context_set_rows(world.main, rows, 2, NULL);
            failed = failing_alloc_disarm();
            assert_int_equal(status, failed ? INLAY_OUT_OF_MEMORY : INLAY_OK);
            if (failed) {
                step(&world, world.main, world.texts, world.count, 1);
                continue;
            }
            while (world.count > 2)
                inlay_context_destroy(world.texts[--world.count].alone);
            world.texts[0] = world.texts[1];
            world.texts[1] = other;
            step(&world, world.main, world.texts, world.count, 1);
        }
        close_world(&world);
    }
}

/* Rows that leave, or join memory that others left, are not copied to new memory: apart from the two lists of rows,
 * nothing is allocated. */
static void joined_in_place(void **state)
{
    const inlay_row empty[3] = { { .context = NULL } };

    (void)state;
    for (uint32_t d = 0; d < DECODERS; d++)
        for (uint32_t w = 0; w < WIDTHS; w++) {
            struct world world;
            inlay_row rows[3];

            if (decoders[d].layout != INLAY_ROWS_RIGHT || !decoders[d].shrinks ||
                !open_caches(decoders[d].text, providers[0], false, widths[w], &world.rig))
                continue;
            open_world(&world, d, false, 3);
            set_rows(world.readers[0], empty, 1);
            read_tokens(world.readers[0], 10);
            set_rows(world.main, empty, 3);
            read_tokens(world.main, 2);
            rows[0] = (inlay_row){ .context = world.main, .length = 2 };
            rows[1] = (inlay_row){ .context = world.main, .length = 2, .row = 1 };
            rows[2] = (inlay_row){ .context = world.readers[0], .length = 10 };
            for (uint32_t count = 2; count <= 3; count++) {
                failing_alloc_arm(2); /* the rows and their lengths */
                if (inlay_context_set_rows(world.main, rows, count, NULL) != INLAY_OK || failing_alloc_disarm())
                    fail_msg("%s, caches in %s bits: %u rows are copied", decoders[d].name, widths[w], count);
            }
            close_world(&world);
        }
}

/* A head of 64, so that a text of 1,140 tokens has more than a mebibyte of states. */
static const char wide[] =
    "past_0 : B,2,P,64\npast_1 : B,2,P,64\ninput_ids : int64 B,S\nattention_mask : int64 B,T\nunit = [] 1.0\n"
    "one = i[1] 1\nwords_0 = [32,16]\nwords = Sub(words_0, unit)\nx = Gather(words, input_ids)\n"
    "to_q_0 = [16,128]\nto_q = Sub(to_q_0, unit)\nto_k_0 = [16,128]\nto_k = Sub(to_k_0, unit)\n"
    "to_v_0 = [16,128]\nto_v = Sub(to_v_0, unit)\nto_words_0 = [128,32]\nto_words = Sub(to_words_0, unit)\n"
    "q = MatMul(x, to_q)\nk = MatMul(x, to_k)\nv = MatMul(x, to_v)\ncosines_0 = [2048,32]\ncosines = Sub(cosines_0, "
    "unit)\ncounts = ReduceSum(attention_mask, one)\n"
    "others = Sub(counts, one)\nlengths = Cast(others) to=6\nshape = Shape(attention_mask)\nlast = Gather(shape, one)\n"
    "total = Cast(last) to=6\n"
    "seen, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, lengths, total, cosines, cosines) "
    "num_heads=2 kv_num_heads=2 do_rotary=1\nlogits = MatMul(seen, to_words)\n-> logits, present_0, present_1";
enum { LONG = 1140, MOST_LONG = LONG + 64, MOST_STEP = 24 };

struct long_text {
    int64_t tokens[MOST_LONG], length;
};

static inlay_context *read_long(const struct world *world, const struct long_text *text)
{
    const inlay_row empty = { .context = NULL };
    inlay_context *context = make_context(&world->rig);

    assert_int_equal(inlay_context_keep_rows(context, &world->info, 16, NULL), INLAY_OK);
    set_rows(context, &empty, 1);
    assert_int_equal(inlay_context_set_tokens(context, text->tokens, text->length, NULL), INLAY_OK);
    run_context(context);
    return context;
}

/* Runs tokens of each row, and compares with contexts that read the whole texts. */
static void step_long(struct world *world, inlay_context *context, struct long_text *texts, uint32_t rows,
                      int64_t count)
{
    int64_t tokens[MOST_ROWS * MOST_STEP];

    for (int64_t i = 0; i < rows * count; i++) {
        struct long_text *text = &texts[i / count];

        tokens[i] = text->tokens[text->length++] = random_between(&world->seed, 0, WORDS - 1);
    }
    assert_int_equal(inlay_context_set_tokens(context, tokens, count, NULL), INLAY_OK);
    run_context(context);
    for (uint32_t i = 0; i < rows; i++) {
        inlay_context *alone = read_long(world, &texts[i]);

        expect_logits(world, last_logits(context, &world->info, i), last_logits(alone, &world->info, 0));
        inlay_context_destroy(alone);
    }
}

/* KiB of pages of files in memory that the process has mapped. */
static long mapped_kib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "RssShmem: %ld", &kib);
    if (status != NULL)
        (void)fclose(status);
    return kib;
}

#ifdef WITH_ASAN
enum { LEAST_MAPPED_KIB = 0 }; /* memory is copied */
#else
enum { LEAST_MAPPED_KIB = 3 * 1000 };
#endif

/* Long texts that begin alike share pages, until a text writes there. */
static void long_texts_share(void **state)
{
    struct long_text texts[4] = { { .length = LONG } };
    inlay_context *reader, *other;
    const long before = mapped_kib();
    struct world world;
    inlay_row rows[4];

    (void)state;
    if (!open_rig(wide, providers[0], false, &world.rig))
        skip();
    open_world(&world, 0, false, 3);
    world.name = "wide";
    for (uint32_t i = 0; i < LONG; i++)
        texts[0].tokens[i] = random_between(&world.seed, 0, WORDS - 1);
    reader = read_long(&world, &texts[0]);
    texts[1] = texts[2] = texts[0];
    texts[2].length = LONG - 10;
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = (inlay_row){ .context = reader, .length = texts[i].length };
    set_rows(world.main, rows, 3);
    step_long(&world, world.main, texts, 3, 1);
    if (mapped_kib() - before < LEAST_MAPPED_KIB)
        fail_msg("%ld KiB are mapped, not 3 times 1,136", mapped_kib() - before);
    /* the second text is rewound and written, the third leaves, and copies of the second and of the first join */
    texts[1].length = 900;
    for (uint32_t i = 0; i < 3; i++)
        rows[i] = (inlay_row){ .context = world.main, .length = texts[i].length, .row = i };
    set_rows(world.main, rows, 3);
    step_long(&world, world.main, texts, 3, MOST_STEP); /* more than a page, and than there is capacity for */
    rows[0].length = texts[0].length;
    rows[1].length = texts[1].length;
    rows[2] = rows[1];
    texts[2] = texts[1];
    rows[3] = (inlay_row){ .context = reader, .length = LONG };
    texts[3] = texts[0];
    texts[3].length = LONG;
    set_rows(world.main, rows, 4);
    step_long(&world, world.main, texts, 4, 1);
    other = make_context(&world.rig);
    assert_int_equal(inlay_context_keep_rows(other, &world.info, 16, NULL), INLAY_OK);
    for (uint32_t i = 0; i < 4; i++)
        rows[i] = (inlay_row){ .context = world.main, .length = texts[i].length, .row = i };
    set_rows(other, rows, 4);
    inlay_context_destroy(reader); /* the pages stay */
    step_long(&world, other, texts, 4, MOST_STEP);
    assert_true(texts[0].length < MOST_LONG);
    inlay_context_destroy(other);
    close_world(&world);
}

static void expect(inlay_status got, inlay_status status, const inlay_diag *diag, const char *part)
{
    if (got != status || strstr(diag->text, part) == NULL)
        fail_msg("status %d, %s; expected %s", (int)got, diag->text, part);
}

static void bind_state(inlay_context *context, uint32_t input)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, (const int64_t[]){ 1, 2, 0, 8 }, &value, NULL), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, input, value, NULL), INLAY_OK);
    inlay_value_unref(value);
}

static void mistakes(void **state)
{
    const inlay_row empty[2] = { { .context = NULL } };
    const int64_t tokens[2] = { 1, 2 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_rows_info info;
    inlay_context *plain, *other;
    inlay_row row;
    struct rig rig, foreign;

    (void)state;
    assert_true(open_rig(masked, "reference", false, &rig) && open_rig(masked, "reference", false, &foreign));
    find_rows(&rig, &info);
    plain = make_context(&rig);
    other = make_context(&foreign);
    assert_int_equal(inlay_context_keep_rows(other, &info, 4, NULL), INLAY_OK);
    set_rows(other, empty, 1);
    expect(inlay_context_set_rows(plain, empty, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "inlay_context_keep_rows");
    expect(inlay_context_set_tokens(plain, tokens, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "0 rows");
    expect(inlay_context_keep_rows(plain, &(inlay_rows_info){ .struct_size = 8 }, 4, &diag), INLAY_INVALID_ARGUMENT,
           &diag, "inlay_session_rows");
    expect(inlay_context_keep_rows(plain, &info, UINT64_MAX, &diag), INLAY_LIMIT_EXCEEDED, &diag, "rows");
    assert_int_equal(inlay_context_keep_rows(plain, &info, 4, NULL), INLAY_OK);
    assert_int_equal(inlay_context_row_count(plain), 0);
    set_rows(plain, empty, 2);
    expect(inlay_context_set_tokens(plain, tokens, 0, &diag), INLAY_INVALID_ARGUMENT, &diag, "0 tokens");
    assert_int_equal(inlay_context_run(plain, NULL, &diag), INLAY_INVALID_ARGUMENT); /* no tokens */
    assert_int_equal(inlay_context_set_tokens(plain, tokens, 1, &diag), INLAY_OK);
    run_context(plain);
    expect(inlay_context_state_rewind(plain, 0, &diag), INLAY_INVALID_ARGUMENT, &diag, "inlay_context_set_rows");
    row = (inlay_row){ .context = plain, .length = 2, .row = 1 };
    expect(inlay_context_set_rows(plain, &row, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "has 1 tokens");
    row = (inlay_row){ .context = plain, .length = 0, .row = 2 };
    expect(inlay_context_set_rows(plain, &row, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "has 2 rows");
    row = (inlay_row){ .length = 1 };
    expect(inlay_context_set_rows(plain, &row, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "no context");
    row = (inlay_row){ .reserved = 1 };
    expect(inlay_context_set_rows(plain, &row, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "reserved");
    row = (inlay_row){ .context = other };
    expect(inlay_context_set_rows(plain, &row, 1, &diag), INLAY_INVALID_ARGUMENT, &diag, "another session");
    set_rows(plain, NULL, 0);
    set_rows(plain, empty, 1);
    assert_int_equal(inlay_context_set_tokens(plain, tokens, 1, NULL), INLAY_OK);
    bind_state(plain, inlay_session_find_input(rig.session, "past_1"));
    expect(inlay_context_run(plain, NULL, &diag), INLAY_INVALID_ARGUMENT, &diag, "('past_1'), which is a state");
    inlay_context_destroy(plain);
    inlay_context_destroy(other);
    rig_close(&rig);
    rig_close(&foreign);
}

static void refusals(void **state)
{
    static const struct {
        const char *text;
        inlay_status status;
        const char *part;
    } wrong[] = { { "x : B,8\ny = Neg(x)\n-> y", INLAY_NOT_FOUND, "option state" },
                  { "x : B,8\npast_0 : B,8\npresent_0 = Add(x, past_0)\n-> present_0", INLAY_UNSUPPORTED, "input_ids" },
                  { "input_ids : int64 B,8\npast_0 : int64 B,8\npresent_0 = Add(input_ids, past_0)\n-> present_0",
                    INLAY_UNSUPPORTED, "logits" },
                  { "input_ids : int64 B,8\nodd : B,8\npast_0 : B,8\npresent_0 = Add(odd, past_0)\n"
                    "logits = Cast(input_ids) to=1\n-> logits, present_0",
                    INLAY_UNSUPPORTED, "'odd'" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_row empty[2] = { { .context = NULL } };
    inlay_rows_info info = { .struct_size = sizeof info };
    inlay_context *context;
    struct rig rig;

    (void)state;
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(open_rig(wrong[i].text, "reference", false, &rig));
        expect(inlay_session_rows(rig.session, NULL, &info, &diag), wrong[i].status, &diag, wrong[i].part);
        rig_close(&rig);
    }
    assert_true(open_rig(averaged, "reference", false, &rig));
    find_rows(&rig, &info);
    assert_int_equal(info.layout, INLAY_ROWS_ALONE);
    context = make_context(&rig);
    assert_int_equal(inlay_context_keep_rows(context, &info, 4, NULL), INLAY_OK);
    set_rows(context, empty, 1);
    expect(inlay_context_set_rows(context, empty, 2, &diag), INLAY_UNSUPPORTED, &diag, "one row");
    inlay_context_destroy(context);
    rig_close(&rig);
    assert_true(open_rig(recurrent, "reference", false, &rig));
    find_rows(&rig, &info);
    context = make_context(&rig);
    assert_int_equal(inlay_context_keep_rows(context, &info, 4, NULL), INLAY_OK);
    set_rows(context, empty, 1);
    assert_int_equal(inlay_context_set_tokens(context, (const int64_t[]){ 1, 2 }, 2, NULL), INLAY_OK);
    run_context(context);
    expect(inlay_context_set_rows(context, &(inlay_row){ .context = context, .length = 1 }, 1, &diag),
           INLAY_UNSUPPORTED, &diag, "do not grow");
    inlay_context_destroy(context);
    rig_close(&rig);
    assert_true(open_rig(windowed, "reference", false, &rig));
    find_rows(&rig, &info);
    context = make_context(&rig);
    assert_int_equal(inlay_context_keep_rows(context, &info, 4, NULL), INLAY_OK);
    set_rows(context, empty, 1);
    assert_int_equal(inlay_context_set_tokens(context, (const int64_t[10]){ 1, 2 }, 10, NULL), INLAY_OK);
    run_context(context);
    expect(
        inlay_context_set_rows(context, (const inlay_row[]){ { context, 10, 0, 0 }, { context, 10, 0, 0 } }, 2, &diag),
        INLAY_UNSUPPORTED, &diag, "'past_0'");
    inlay_context_destroy(context);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts_are_found), cmocka_unit_test(together_as_alone),
                                        cmocka_unit_test(parts_as_whole),    cmocka_unit_test(failing_allocations),
                                        cmocka_unit_test(mistakes),          cmocka_unit_test(refusals),
                                        cmocka_unit_test(padding_is_zero),   cmocka_unit_test(joined_in_place),
                                        cmocka_unit_test(long_texts_share) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
