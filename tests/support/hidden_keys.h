/* hidden_keys.h - models of attention in which some keys are hidden from some queries, by lengths, masks, causality or
 * windows. What the hidden keys and their values hold must not change a bit of the results: each case runs with zeros
 * there, and with NaN, infinities and 1e38. */
#ifndef HIDDEN_KEYS_H
#define HIDDEN_KEYS_H
#include "graph_script.h"

enum hidden_form {
    HIDDEN_CACHE,  /* GroupQueryAttention over a past buffer */
    HIDDEN_PROMPT, /* GroupQueryAttention of prompts that are padded at the end */
    HIDDEN_LENGTHS,
    HIDDEN_BOOLS,
    HIDDEN_FLOATS,
    HIDDEN_CAUSAL,    /* ONNX's Attention, hidden by its input or attribute */
    HIDDEN_PADDED,    /* MultiHeadAttention */
    HIDDEN_PROJECTED, /* com.microsoft's Attention, hidden keys in its past */
    HIDDEN_DECODER,   /* DecoderMaskedMultiHeadAttention */
    HIDDEN_EMBEDDED,  /* com.microsoft's Attention behind EmbedLayerNormalization, whose mask gives the lengths */
    HIDDEN_FORMS
};

typedef struct hidden_case {
    enum hidden_form form;
    int64_t batch, heads, shared, queries, keys, size; /* shared: heads of keys */
    const char *type;                                  /* of the operator; the model's inputs are floats */
    const char *more;                                  /* attributes */
    bool sliding, sink;                                /* `more` has a window of 3 keys; a sink */
    int64_t lengths[3];                                /* keys of each sequence, with those of the new tokens */
    uint8_t mask[3 * 9 * 40];                          /* [batch, queries, keys]: visible */
    /* The operators of com.microsoft: the mask's rank and sizes, the keys that it covers, those of the past. */
    enum { HIDDEN_ENDS, HIDDEN_RANGES, HIDDEN_KEYS, HIDDEN_ROWS, HIDDEN_MASKS } kind;
    int64_t used, past;
    bool causal;
    int32_t given[3 * 9 * 40]; /* elements of the mask */
    bool planted[3 * 40];      /* [batch, keys] */
} hidden_case;

static inline bool hidden_is_grouped(const hidden_case *it)
{
    return it->form <= HIDDEN_PROMPT;
}

static inline bool hidden_is_contributed(const hidden_case *it)
{
    return it->form >= HIDDEN_PADDED;
}

/* May the query use the key? */
static inline bool hidden_shows(const hidden_case *it, int64_t batch, int64_t query, int64_t key)
{
    const int64_t at = it->form == HIDDEN_CACHE ? it->lengths[batch] - it->queries + query : query;

    if (hidden_is_grouped(it))
        return key <= at && (!it->sliding || key > at - 3);
    if (it->form == HIDDEN_LENGTHS)
        return key < it->lengths[batch];
    if (it->form == HIDDEN_CAUSAL)
        return key <= query;
    return it->mask[(batch * it->queries + query) * it->keys + key] != 0;
}

/* Draws the mask of an operator of com.microsoft. A query from which it hides every key uses all that causality leaves.
 */
static inline void hidden_draw_padding(hidden_case *it, uint64_t *seed)
{
    if (it->form != HIDDEN_EMBEDDED) /* otherwise HIDDEN_ENDS */
        it->kind = (int)random_below(seed, it->form == HIDDEN_DECODER ? HIDDEN_KEYS + 1 : HIDDEN_MASKS);
    it->causal = it->form != HIDDEN_DECODER && random_below(seed, 2) > 0;
    it->shared = it->heads;
    it->used = it->keys;
    it->past = it->form != HIDDEN_PADDED || random_below(seed, 2) ? it->keys - it->queries : 0;
    if (it->form == HIDDEN_DECODER) {
        it->queries = 1;
        it->used = random_below(seed, 2) ? it->keys : 1 + (int64_t)random_below(seed, (uint64_t)it->keys);
        it->past = it->used == it->keys ? it->keys - 1 : it->keys;
    }
    for (int64_t b = 0; b < it->batch; b++) {
        const int64_t end = random_below(seed, 5) == 0 ? 0 : 1 + (int64_t)random_below(seed, (uint64_t)it->used),
                      begin = it->kind == HIDDEN_RANGES ? (int64_t)random_below(seed, (uint64_t)end + 1) : 0;

        if (it->kind == HIDDEN_RANGES)
            it->given[it->batch + b] = (int32_t)begin;
        if (it->kind <= HIDDEN_RANGES)
            it->given[b] = (int32_t)end;
        for (int64_t k = 0; k < it->keys * it->queries; k++) {
            const int64_t query = k / it->keys, key = k % it->keys, row = b * it->queries + query;
            bool shown = key >= begin && key < end;

            if (key >= it->used)
                continue;
            if (it->kind == HIDDEN_KEYS && query == 0)
                it->given[b * it->used + key] = random_below(seed, 2) > 0;
            if (it->kind == HIDDEN_ROWS)
                it->given[row * it->used + key] = random_below(seed, 2) > 0;
            if (it->kind >= HIDDEN_KEYS)
                shown = it->given[(it->kind == HIDDEN_KEYS ? b : row) * it->used + key] != 0;
            it->mask[row * it->keys + key] = shown;
        }
        for (int64_t q = 0; q < it->queries; q++) {
            uint8_t *mask = it->mask + (b * it->queries + q) * it->keys;
            const int64_t last = it->causal ? it->used - it->queries + q : it->used - 1;
            bool any = false;

            for (int64_t k = 0; k <= last; k++)
                any |= mask[k] != 0;
            for (int64_t k = 0; k < it->keys; k++)
                mask[k] = k <= last && (!any || mask[k]);
        }
    }
}

/* Draws a case: its sizes, lengths, masks, and the keys that are replaced. */
static inline void hidden_draw(hidden_case *it, uint64_t seed)
{
    static const char *const grouped[] = { "", "softcap=2.0", "local_window_size=3", "smooth_softmax=1" };
    static const int64_t sizes[] = { 4, 8, 20, 33, 64 };
    const uint32_t kind = (uint32_t)random_below(&seed, 4);

    *it = (hidden_case){ .form = (enum hidden_form)random_below(&seed, HIDDEN_FORMS),
                         .batch = 1 + (int64_t)random_below(&seed, 3),
                         .shared = 1 + (int64_t)random_below(&seed, 2),
                         .queries = random_below(&seed, 2) ? 1 : 2 + (int64_t)random_below(&seed, 8),
                         .size = sizes[random_below(&seed, 5)],
                         .type = random_below(&seed, 4) == 0 ? "float16" : "float",
                         .more = "" };
    it->heads = it->shared * (1 + (int64_t)random_below(&seed, 3));
    it->keys = it->form == HIDDEN_PROMPT || it->form == HIDDEN_EMBEDDED
                   ? it->queries
                   : it->queries + 1 + (int64_t)random_below(&seed, 31);
    if (hidden_is_grouped(it)) {
        it->more = grouped[kind];
        it->sliding = kind == 2;
        it->sink = kind == 3;
    }
    for (int64_t b = 0; b < it->batch; b++) {
        const int64_t least = it->form == HIDDEN_CACHE ? it->queries : 1;

        it->lengths[b] = least + (int64_t)random_below(&seed, (uint64_t)(it->keys - least + 1));
        for (int64_t k = 0; k < it->keys; k++) {
            const bool visible = random_below(&seed, 3) > 0;

            for (int64_t q = 0; q < it->queries; q++)
                it->mask[(b * it->queries + q) * it->keys + k] = visible && random_below(&seed, 8) > 0;
        }
    }
    if (hidden_is_contributed(it))
        hidden_draw_padding(it, &seed);
    for (int64_t i = 0; i < it->batch * it->keys; i++) {
        const int64_t b = i / it->keys, k = i % it->keys;
        bool seen = false;

        for (int64_t q = 0; q < it->queries; q++)
            seen |= hidden_shows(it, b, q, k);
        /* Types other than float, and sinks: only what is behind the length does not count. */
        if (hidden_is_grouped(it) && (it->sink || strcmp(it->type, "float") != 0) && k < it->lengths[b])
            continue;
        if (hidden_is_contributed(it) && ((seen && strcmp(it->type, "float") != 0) || (it->past != 0 && k >= it->past)))
            continue;
        /* The new tokens are written there. */
        if (it->form == HIDDEN_CACHE && k >= it->lengths[b] - it->queries && k < it->lengths[b])
            continue;
        it->planted[i] = random_below(&seed, seen ? 10 : 2) == 0;
    }
}

/* The mask and the node of an operator of com.microsoft. */
static inline size_t hidden_script_padding(const hidden_case *it, char *text, size_t room)
{
    const long long b = it->batch;
    const bool shares = it->used < it->keys;
    size_t used = (size_t)snprintf(text, room, "m : int32 ");

    if (it->kind <= HIDDEN_RANGES)
        used += (size_t)snprintf(text + used, room - used, "%lld\n", it->kind == HIDDEN_ENDS ? b : 2 * b);
    else if (it->kind == HIDDEN_KEYS)
        used += (size_t)snprintf(text + used, room - used, "%lld,%lld\n", b, (long long)it->used);
    else
        used += (size_t)snprintf(text + used, room - used, "%lld,%lld,%lld\n", b, (long long)it->queries,
                                 (long long)it->used);
    if (shares)
        used += (size_t)snprintf(text + used, room - used, "n : int32 1\n");
    if (it->form == HIDDEN_PADDED)
        used += (size_t)snprintf(text + used, room - used, "y0 = ms.MultiHeadAttention(q, k, v, _, m, _%s)",
                                 it->past > 0 ? ", pk, pv" : "");
    else if (it->form == HIDDEN_PROJECTED)
        used += (size_t)snprintf(text + used, room - used, "y0 = ms.Attention(q, k, v, m, pk)");
    else
        used += (size_t)snprintf(text + used, room - used,
                                 "y0 = ms.DecoderMaskedMultiHeadAttention(q, k, v, m, _, pk, pv%s)%s",
                                 shares ? ", n" : "", shares ? " past_present_share_buffer=1" : "");
    used += (size_t)snprintf(text + used, room - used, " num_heads=%lld%s\n", (long long)it->heads,
                             it->causal ? " unidirectional=1" : "");
    return used;
}

/* The planted tokens have id 6. */
static inline size_t hidden_script_embedding(const hidden_case *it, char *text, size_t room)
{
    static const char *const names[] = { "w", "p", "g", "c", "k", "v" };
    const long long b = it->batch, n = it->queries, width = it->heads * it->size;
    size_t used = (size_t)snprintf(text, room,
                                   "i : int32 %lld,%lld\nm : int32 %lld,%lld\nw0 : 7,5\np0 = [%lld,5]\ng0 = [5]\n"
                                   "c0 = [5]\nk0 = [5,%lld]\nv0 = [%lld]\n",
                                   b, n, b, n, n, 3 * width, 3 * width);

    for (int i = 0; i < 6; i++)
        used += (size_t)snprintf(text + used, room - used, "%s = Cast(%s0) to=%d\n", names[i], names[i],
                                 strcmp(it->type, "float") == 0 ? INLAY_FLOAT : INLAY_FLOAT16);
    return used + (size_t)snprintf(text + used, room - used,
                                   "e, l = ms.EmbedLayerNormalization(i, _, w, p, _, g, c, m)\n"
                                   "y0 = ms.Attention(e, k, v, l) num_heads=%lld%s\ny = Cast(y0) to=1\n-> y",
                                   (long long)it->heads, it->causal ? " unidirectional=1" : "");
}

static inline void hidden_script(const hidden_case *it, char *text, size_t room)
{
    static const char *const names[] = { "q", "k", "v", "pk", "pv" };
    const long long b = it->batch, h = it->heads, g = it->shared, n = it->queries, t = it->keys, s = it->size;
    const int32_t type = strcmp(it->type, "float") == 0 ? INLAY_FLOAT : INLAY_FLOAT16;
    const int inputs = it->form == HIDDEN_CACHE                      ? 5
                       : !hidden_is_contributed(it) || it->past == 0 ? 3
                       : it->form == HIDDEN_PROJECTED                ? 4
                                                                     : 5;
    size_t used = 0;

    if (it->form == HIDDEN_EMBEDDED) {
        used = hidden_script_embedding(it, text, room);
        assert_true(used < room);
        return;
    }
    for (int i = 0; i < inputs; i++)
        if (it->form == HIDDEN_PROJECTED)
            used += (size_t)(i == 0   ? snprintf(text + used, room - used, "q0 : %lld,%lld,5\n", b, n)
                             : i == 1 ? snprintf(text + used, room - used, "k0 = [5,%lld]\n", 3 * h * s)
                             : i == 2 ? snprintf(text + used, room - used, "v0 = [%lld]\n", 3 * h * s)
                                      : snprintf(text + used, room - used, "pk0 : 2,%lld,%lld,%lld,%lld\n", b, h,
                                                 (long long)it->past, s));
        else if (hidden_is_contributed(it) && i < 3)
            used += (size_t)snprintf(text + used, room - used, "%s0 : %lld,%lld,%lld\n", names[i], b,
                                     i == 0 || it->past > 0 ? n : t, h * s);
        else if (hidden_is_contributed(it))
            used += (size_t)snprintf(text + used, room - used, "%s0 : %lld,%lld,%lld,%lld\n", names[i], b, h,
                                     (long long)it->past, s);
        else if (hidden_is_grouped(it) && i < 3)
            used += (size_t)snprintf(text + used, room - used, "%s0 : %lld,%lld,%lld\n", names[i], b, n,
                                     (i == 0 ? h : g) * s);
        else
            used += (size_t)snprintf(text + used, room - used, "%s0 : %lld,%lld,%lld,%lld\n", names[i], b,
                                     i == 0 ? h : g, i == 0 ? n : t, s);
    if (hidden_is_grouped(it))
        used += (size_t)snprintf(text + used, room - used, "l : int32 %lld\nt : int32 1\n", b);
    else if (it->form == HIDDEN_LENGTHS)
        used += (size_t)snprintf(text + used, room - used, "l : int64 %lld\n", b);
    else if (it->form != HIDDEN_CAUSAL && !hidden_is_contributed(it))
        used += (size_t)snprintf(text + used, room - used, "m0 : %s%lld,1,%lld,%lld\nm = Cast(m0) to=%d\n",
                                 it->form == HIDDEN_BOOLS ? "bool " : "", b, n, t,
                                 it->form == HIDDEN_BOOLS ? INLAY_BOOL : type);
    for (int i = 0; i < inputs; i++)
        used += (size_t)snprintf(text + used, room - used, "%s = Cast(%s0) to=%d\n", names[i], names[i], (int)type);
    if (hidden_is_contributed(it))
        used += hidden_script_padding(it, text + used, room - used);
    else if (hidden_is_grouped(it))
        used += (size_t)snprintf(text + used, room - used,
                                 "y0, a, c = ms.GroupQueryAttention(q, k, v, %s, l, t) num_heads=%lld "
                                 "kv_num_heads=%lld %s\n",
                                 it->form == HIDDEN_CACHE ? "pk, pv" : "_, _", h, g, it->more);
    else
        used += (size_t)snprintf(text + used, room - used, "y0 = Attention(q, k, v%s) is_causal=%d\n",
                                 it->form == HIDDEN_LENGTHS  ? ", _, _, _, l"
                                 : it->form == HIDDEN_CAUSAL ? ""
                                                             : ", m",
                                 it->form == HIDDEN_CAUSAL);
    used += (size_t)snprintf(text + used, room - used, "y = Cast(y0) to=1\n%s",
                             it->form == HIDDEN_CACHE ? "=> y, a, c" : "-> y");
    assert_true(used < room);
}

/* Fills keys or values, [batch, heads, keys, size] or [batch, keys, heads, size] (by_row). odd: the planted ones get
 * special values, otherwise 0. */
static inline void hidden_fill(const hidden_case *it, int64_t keys, bool by_row, bool odd, uint64_t seed, float *to)
{
    static const float special[] = { NAN, INFINITY, -INFINITY, 1e38f, -1e38f };
    const bool plants = random_below(&seed, 4) > 0, whole = random_below(&seed, 2) > 0; /* every element of a row */

    for (int64_t i = 0; i < it->batch * it->shared * keys * it->size; i++) {
        const int64_t batch = i / (it->shared * keys * it->size),
                      key = by_row ? i / it->size / it->shared % keys : i / it->size % keys;
        const float x = 2 * random_signed(&seed), other = special[random_below(&seed, 5)];
        const bool replaced = whole || random_below(&seed, 3) == 0;

        to[i] = !it->planted[batch * it->keys + key] || !plants ? x : odd && replaced ? other : 0;
    }
}

/* The same for rows of `bytes` bytes that end with their scale (option kv_cache_bits). */
static inline void hidden_fill_codes(const hidden_case *it, int64_t bytes, bool odd, uint64_t seed, uint8_t *to)
{
    const float scale = 0.02f;

    for (int64_t i = 0; i < it->batch * it->shared * it->keys; i++, to += bytes) {
        const bool planted = it->planted[i / (it->shared * it->keys) * it->keys + i % it->keys];

        for (int64_t k = 0; k < bytes; k++)
            to[k] = (uint8_t)random_below(&seed, 256);
        if (planted)
            memset(to, odd ? 255 : 0, (size_t)bytes); /* a scale of NaN, or 0 */
        else
            memcpy(to + bytes - sizeof scale, &scale, sizeof scale);
    }
}

/* Ids, the mask and the table of words of EmbedLayerNormalization, which counts the ones in the mask anywhere. */
static inline void hidden_bind_embedding(const hidden_case *it, struct rig *rig, bool odd, uint64_t seed)
{
    static const float special[] = { NAN, INFINITY, -INFINITY, 1e38f };
    static const int32_t uncounted[] = { 2, -1, 1000, INT32_MIN };
    const int64_t ids[] = { it->batch, it->queries }, table[] = { 7, 5 };
    inlay_value *values[3] = { NULL };

    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(
            inlay_value_create(i < 2 ? INLAY_INT32 : INLAY_FLOAT, 2, i < 2 ? ids : table, &values[i], NULL), INLAY_OK);
    for (int64_t i = 0; i < it->batch * it->queries; i++) {
        const int64_t b = i / it->queries, place = (i + b) % it->queries;

        ((int32_t *)inlay_value_data(values[0]))[i] = it->planted[i] ? 6 : (int32_t)random_below(&seed, 6);
        ((int32_t *)inlay_value_data(values[1]))[i] = place < it->given[b] ? 1 : odd ? uncounted[i % 4] : 0;
    }
    for (int64_t i = 0; i < 35; i++) {
        const float x = 2 * random_signed(&seed);

        ((float *)inlay_value_data(values[2]))[i] = i < 30 ? x : odd ? special[i % 4] : 0;
    }
    for (uint32_t i = 0; i < 3; i++)
        rig_bind(rig, i, values[i]);
}

static inline void hidden_bind(const hidden_case *it, struct rig *rig, bool odd, uint64_t seed)
{
    const uint32_t count = inlay_session_input_count(rig->session);
    const bool prompt = it->form == HIDDEN_PROMPT;

    if (it->form == HIDDEN_EMBEDDED) {
        hidden_bind_embedding(it, rig, odd, seed);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;
        void *data;

        assert_int_equal(inlay_session_input(rig->session, i, &info), INLAY_OK);
        assert_int_equal(inlay_value_create(info.dtype, info.rank, info.dims, &value, NULL), INLAY_OK);
        data = inlay_value_data(value);
        if (info.dtype == INLAY_FLOAT && strcmp(info.name, "m0") != 0) {
            const bool past = info.name[0] == 'p', new_keys = info.name[0] == 'k' || info.name[0] == 'v';
            const bool planted =
                it->form == HIDDEN_CACHE || (hidden_is_contributed(it) && it->past > 0) ? past : new_keys;
            const int64_t keys = past && it->past > 0 ? it->past : it->keys, half = inlay_value_count(value) / 2;
            uint64_t random = seed * 8 + i;

            if (planted)
                hidden_fill(it, keys, !past && (prompt || hidden_is_contributed(it)), odd, random, data);
            if (planted && info.rank == 5) /* keys and values */
                hidden_fill(it, keys, false, odd, random + 1, (float *)data + half);
            else if (!planted)
                for (int64_t k = 0; k < inlay_value_count(value); k++)
                    ((float *)data)[k] = 2 * random_signed(&random);
        } else if (info.dtype == INLAY_FLOAT) {
            for (int64_t k = 0; k < inlay_value_count(value); k++)
                ((float *)data)[k] = it->mask[k] ? 0 : -INFINITY;
        } else if (info.dtype == INLAY_INT8 || info.dtype == INLAY_UINT8) {
            hidden_fill_codes(it, info.dims[3], odd, seed * 8 + i, data);
        } else if (strcmp(info.name, "m") == 0) {
            memcpy(data, it->given, (size_t)inlay_value_count(value) * sizeof *it->given);
        } else if (strcmp(info.name, "n") == 0) {
            *(int32_t *)data = (int32_t)it->used - 1;
        } else if (info.dtype == INLAY_BOOL) {
            memcpy(data, it->mask, (size_t)inlay_value_count(value));
        } else if (info.dtype == INLAY_INT64) {
            memcpy(data, it->lengths, (size_t)it->batch * sizeof(int64_t));
        } else if (strcmp(info.name, "t") == 0) {
            int64_t most = 0;

            for (int64_t b = 0; b < it->batch; b++)
                most = it->lengths[b] > most ? it->lengths[b] : most;
            *(int32_t *)data = (int32_t)(prompt ? it->keys : most);
        } else {
            for (int64_t b = 0; b < it->batch; b++)
                ((int32_t *)data)[b] = (int32_t)it->lengths[b] - 1;
        }
        rig_bind(rig, i, value);
    }
}

/* Runs case `seed` with these options of sessions. */
static inline void hidden_expect(const char *const *options, uint64_t seed)
{
    hidden_case it;
    char text[1024];
    struct rig rig;
    float *zeros;
    int64_t count, row;
    const float *got;

    hidden_draw(&it, seed);
    hidden_script(&it, text, sizeof text);
    rig = script_open(options, 24, text);
    hidden_bind(&it, &rig, false, seed);
    rig_run(&rig);
    count = inlay_value_count(inlay_context_output(rig.context, 0));
    zeros = malloc((size_t)count * sizeof *zeros);
    assert_non_null(zeros);
    memcpy(zeros, inlay_value_data(inlay_context_output(rig.context, 0)), (size_t)count * sizeof *zeros);
    hidden_bind(&it, &rig, true, seed);
    rig_run(&rig);
    got = inlay_value_data(inlay_context_output(rig.context, 0));
    row = count / it.batch / it.queries;
    for (int64_t i = 0; i < count; i++) {
        /* [batch, queries, heads * size], or [batch, heads, queries, size] */
        const int64_t batch = i / row / it.queries,
                      query =
                          (hidden_is_grouped(&it) || hidden_is_contributed(&it) ? i / row : i / it.size) % it.queries;
        bool spoilt = it.form == HIDDEN_EMBEDDED && it.planted[batch * it.keys + query];

        for (int64_t k = 0; k < it.keys; k++)
            spoilt |= it.planted[batch * it.keys + k] && hidden_shows(&it, batch, query, k);
        if (!spoilt && memcmp(&got[i], &zeros[i], sizeof *got) != 0)
            fail_msg("case %llu: element %lld is %g, not %g: batch %lld, query %lld, %s\n%s", (unsigned long long)seed,
                     (long long)i, (double)got[i], (double)zeros[i], (long long)batch, (long long)query, it.more, text);
    }
    free(zeros);
    rig_close(&rig);
}
#endif
