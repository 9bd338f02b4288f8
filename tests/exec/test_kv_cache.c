/* Caches of keys and values in 8 or 4 bits: GroupQueryAttention with a quantized cache, compared with its definition in
 * doubles, and option kv_cache_bits, compared with the model in floats. Contexts keep such states in place. */
#include "graph_script.h"
#include "level.h"
#include "session/session.h"

enum { HEADS = 4, SHARED = 2, SIZE = 20, MOST = 48, PROMPT = 7, MOST_BATCH = 2, WIDE = HEADS * SIZE };

static const char *const providers[] = { "cpu,reference", "reference" };
enum { PROVIDERS = sizeof providers / sizeof providers[0] };

static const char *level = "99";

static bool try_open(const char *text, const char *names, const char *bits, struct rig *out, inlay_diag *diag)
{
    const char *options[] = { "providers", names,   "policy", "priority", "intra_threads", "2", "kv_cache_bits",
                              bits,        "level", level,    NULL };
    struct wire wire = { 0 };

    script_model(&wire, 23, text);
    if (rig_try_open(&wire, options, out, diag) == INLAY_OK)
        return true;
    rig_close(out);
    return false;
}

/* Returns false if the provider is not built. */
static bool open_or_skip(const char *text, const char *names, const char *bits, struct rig *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (try_open(text, names, bits, out, &diag))
        return true;
    if (strstr(diag.text, "no provider 'cpu'") == NULL)
        fail_msg("%s", diag.text);
    return false;
}

/* Element e of the queries, keys or values (i = 0, 1, 2) of token t. */
static float element(uint32_t i, int64_t batch, int64_t t, int64_t e)
{
    uint64_t seed = (uint64_t)(((batch * 1000 + t) * 3 + i) * 512 + e);

    return random_signed(&seed) * (i == 1 && e % SIZE == 3 ? 8.0f : 2.0f); /* a channel of large keys */
}

/* Binds tokens [at, at + rows) as inputs 0 to 2 [batch, rows, heads * size]. */
static void bind_tokens(struct rig *rig, int64_t batch, int64_t at, int64_t rows)
{
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t wide = (i == 0 ? HEADS : SHARED) * SIZE;
        inlay_value *value = NULL;

        assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, (const int64_t[]){ batch, rows, wide }, &value, NULL),
                         INLAY_OK);
        for (int64_t k = 0; k < batch * rows * wide; k++)
            ((float *)inlay_value_data(value))[k] = element(i, k / wide / rows, at + k / wide % rows, k % wide);
        rig_bind(rig, i, value);
    }
}

/* The mask of ones [batch, total] of the script below. */
static void bind_mask(struct rig *rig, uint32_t input, int64_t batch, int64_t total)
{
    inlay_value *mask = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ batch, total }, &mask, NULL), INLAY_OK);
    for (int64_t k = 0; k < batch * total; k++)
        ((float *)inlay_value_data(mask))[k] = 1;
    rig_bind(rig, input, mask);
}

static void keep(struct rig *rig)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_keep_states(rig->context, 8, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

#define GROUPS                                                                                                         \
    "mask : B,T\naxis = i[1] 1\none = [] 1.0\nsum = ReduceSum(mask, axis) keepdims=0\nless = Sub(sum, one)\n"          \
    "l = Cast(less) to=6\nshape = Shape(mask)\nat = i[] 1\nlong = Gather(shape, at)\nt = Cast(long) to=6\n"

#define CAPPED "softcap=1.5"
struct form {
    int bits;
    bool by_channel;
    const char *more; /* further attributes */
};

static void write_script(const struct form *form, char *text, size_t room)
{
    const char *type = form->bits == 8 ? "int8" : "uint8", *by = form->by_channel ? "PER_CHANNEL" : "PER_TENSOR";
    const int row = form->bits == 8 ? SIZE : SIZE / 2;
    char scales[32] = "1";

    if (form->by_channel)
        (void)snprintf(scales, sizeof scales, "1,%d,1,%d", SHARED, SIZE);
    (void)snprintf(text, room,
                   "q : B,S,%d\nk : B,S,%d\nv : B,S,%d\npast_0 : %s B,%d,P,%d\npast_1 : %s B,%d,P,%d\n" GROUPS
                   "ks : %s\nvs : %s\ny, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, l, t, "
                   "_, _, _, _, _, ks, vs) num_heads=%d kv_num_heads=%d k_quant_type=%s v_quant_type=%s "
                   "kv_cache_bit_width=%d %s\n-> y, present_0, present_1",
                   WIDE, SHARED * SIZE, SHARED * SIZE, type, SHARED, row, type, SHARED, row, scales, scales, HEADS,
                   SHARED, by, by, form->bits, form->more);
}

enum { IN_MASK = 5, IN_KS = 6, IN_VS = 7 };

static float scale_at(const struct form *form, uint32_t i, int64_t head, int64_t e)
{
    const float unit = form->bits == 8 ? 0.016f : 0.28f;

    return form->by_channel ? unit * (1 + (float)((head * SIZE + e + i) % 3) + (i == 1 && e == 3 ? 4 : 0)) : unit;
}

static void bind_scales(struct rig *rig, const struct form *form)
{
    const int64_t dims[] = { 1, SHARED, 1, SIZE };

    for (uint32_t i = 1; i < 3; i++) {
        inlay_value *value = NULL;

        assert_int_equal(
            inlay_value_create(INLAY_FLOAT, form->by_channel ? 4 : 1, form->by_channel ? dims : dims, &value, NULL),
            INLAY_OK);
        for (int64_t k = 0; k < inlay_value_count(value); k++)
            ((float *)inlay_value_data(value))[k] = scale_at(form, i, k / SIZE, k % SIZE);
        rig_bind(rig, i == 1 ? IN_KS : IN_VS, value);
    }
}

/* The code of an element in ONNX Runtime's cache. */
static int code(const struct form *form, uint32_t i, int64_t batch, int64_t head, int64_t t, int64_t e)
{
    const float near = rintf(element(i, batch, t, head * SIZE + e) * (1 / scale_at(form, i, head, e)));
    const float most = form->bits == 8 ? 127 : 7;

    return (int)(near > most ? most : near < -most - 1 ? -most - 1 : near);
}

static double stored(const struct form *form, uint32_t i, int64_t batch, int64_t head, int64_t t, int64_t e)
{
    return (double)scale_at(form, i, head, e) * code(form, i, batch, head, t, e);
}

/* The cache has these codes. */
static void expect_cache(const struct form *form, uint32_t i, const inlay_value *value, int64_t batch, int64_t total)
{
    const int64_t row = form->bits == 8 ? SIZE : SIZE / 2;
    const uint8_t *bytes = inlay_value_data(value);

    assert_int_equal(inlay_value_dtype(value), form->bits == 8 ? INLAY_INT8 : INLAY_UINT8);
    assert_int_equal(inlay_value_bytes(value), batch * SHARED * total * row);
    for (int64_t r = 0; r < batch * SHARED * total; r++)
        for (int64_t e = 0; e < SIZE; e++) {
            const int want = code(form, i, r / total / SHARED, r / total % SHARED, r % total, e);
            const uint8_t byte = bytes[r * row + (form->bits == 8 ? e : e / 2)];
            const int got = form->bits == 8 ? (int8_t)byte : (byte >> e % 2 * 4 & 15) - 8;

            if (got != want)
                fail_msg("%d bits, input %u, row %lld, element %lld: code %d, not %d", form->bits, i, (long long)r,
                         (long long)e, got, want);
        }
}

/* Row t of the result, by definition. */
static void expect_row(const struct form *form, int64_t batch, int64_t head, int64_t t, const float *got)
{
    const int64_t shared = head / (HEADS / SHARED);
    const bool smooth = strstr(form->more, "smooth") != NULL;
    double scores[MOST], sum = smooth ? 1 : 0;

    for (int64_t k = 0; k <= t; k++) {
        double score = 0;

        for (int64_t e = 0; e < SIZE; e++)
            score += (double)element(0, batch, t, head * SIZE + e) * stored(form, 1, batch, shared, k, e);
        score /= sqrt((double)SIZE);
        scores[k] = exp(strstr(form->more, CAPPED) != NULL ? 1.5 * tanh(score / 1.5) : score);
        sum += scores[k];
    }
    for (int64_t e = 0; e < SIZE; e++) {
        double want = 0;

        for (int64_t k = 0; k <= t; k++)
            want += scores[k] / sum * stored(form, 2, batch, shared, k, e);
        if (!(fabs((double)got[e] - want) <= 2e-5))
            fail_msg("%d bits, token %lld, head %lld, element %lld: %g, not %g", form->bits, (long long)t,
                     (long long)head, (long long)e, (double)got[e], want);
    }
}

/* Whether the session runs a node of this operator. */
static bool runs(const struct rig *rig, const char *op_type)
{
    const struct graph *graph = rig->session->model->main;

    for (uint32_t i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i]->info.op_type.data, op_type) == 0)
            return true;
    return false;
}

/* A prompt and single tokens, with states that the context keeps, or that are passed. */
static void run_quantized(const struct form *form, const char *names, int64_t batch, bool kept)
{
    const int64_t row = form->bits == 8 ? SIZE : SIZE / 2;
    inlay_state_info info = { .struct_size = sizeof info };
    struct rig rig;
    char script[1024];
    int64_t rows = PROMPT;

    write_script(form, script, sizeof script);
    if (!open_or_skip(script, names, "model", &rig))
        return;
    assert_true(runs(&rig, "QuantizeRows"));
    assert_true(runs(&rig, "CachedAttention") && !runs(&rig, "DequantizeRows"));
    if (kept)
        keep(&rig);
    assert_int_equal(inlay_session_state(rig.session, 1, &info), INLAY_OK);
    assert_true(info.in_place == 1 || names == providers[1] || level_is_low());
    for (int64_t at = 0; at + rows <= MOST; at += rows, rows = 1 + (at > 20)) {
        const float *y;

        bind_tokens(&rig, batch, at, rows);
        bind_mask(&rig, IN_MASK, batch, at + rows);
        bind_scales(&rig, form);
        for (uint32_t i = 0; !kept && i < 2; i++) {
            inlay_value *past = at > 0 ? inlay_value_ref(inlay_context_output(rig.context, 1 + i)) : NULL;

            if (at == 0)
                assert_int_equal(inlay_value_create(form->bits == 8 ? INLAY_INT8 : INLAY_UINT8, 4,
                                                    (const int64_t[]){ batch, SHARED, 0, row }, &past, NULL),
                                 INLAY_OK);
            rig_bind(&rig, 3 + i, past);
        }
        rig_run(&rig);
        y = inlay_value_data(inlay_context_output(rig.context, 0));
        for (int64_t r = 0; r < batch * rows * HEADS; r++)
            expect_row(form, r / HEADS / rows, r % HEADS, at + r / HEADS % rows, y + r * SIZE);
        for (uint32_t i = 0; i < 2; i++) {
            inlay_value *now = NULL;

            if (kept)
                assert_int_equal(inlay_context_state_get(rig.context, i, &now, NULL), INLAY_OK);
            else
                now = inlay_value_ref(inlay_context_output(rig.context, 1 + i));
            expect_cache(form, 1 + i, now, batch, at + rows);
            inlay_value_unref(now);
        }
    }
    rig_close(&rig);
}

static void quantized_caches(void **state)
{
    static const char *const more[] = { "", "smooth_softmax=1", CAPPED, CAPPED " smooth_softmax=1" };

    (void)state;
    for (int n = 0; n < 64 * PROVIDERS; n++) {
        const struct form form = { n & 1 ? 4 : 8, (n & 2) != 0, more[n >> 2 & 3] };

        run_quantized(&form, providers[n / 64], 1 + (n >> 4 & 1), (n & 32) != 0);
    }
}

/* Scales of channels in one axis, and a query of unknown width, are accepted: as with all sizes given. */
static void open_forms(void **state)
{
    static const struct form form = { 8, true, "" };
    static const char *const changes[][2] = { { "ks : 1,2,1,20\nvs : 1,2,1,20", "ks : 40\nvs : 40" },
                                              { "q : B,S,80", "q : B,S,W" } };

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        char script[1024], changed[1024], *at;
        struct rig rig;

        write_script(&form, script, sizeof script);
        at = strstr(script, changes[i][0]);
        assert_non_null(at);
        (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - script), script, changes[i][1],
                       at + strlen(changes[i][0]));
        if (!try_open(changed, "reference", "model", &rig, &diag))
            fail_msg("%s: %s", changes[i][1], diag.text);
        rig_close(&rig);
    }
}

static void refused_forms(void **state)
{
    static const struct {
        struct form form;
        const char *from, *to, *why;
    } wrong[] = {
        { { 8, false, "" }, "kv_cache_bit_width=8", "kv_cache_bit_width=5", "neither 4 nor 8" },
        { { 8, false, "" }, "kv_cache_bit_width=8", "", "neither 4 nor 8" },
        { { 4, false, "" }, "kv_cache_bit_width=4", "kv_cache_bit_width=8", "not of the type of its cache" },
        { { 8, false, "" }, "v_quant_type=PER_TENSOR", "", "v_scale must be given if" },
        { { 8, false, "" }, ", ks, vs", ", _, vs", "k_scale must be given if" },
        { { 8, false, "" }, "k_quant_type=PER_TENSOR v_quant_type=PER_TENSOR", "", "k_scale must be given if" },
        { { 8, false, "" }, "k_quant_type=PER_TENSOR", "k_quant_type=PER_CHANNEL", "k_scale has not the shape" },
        { { 8, true, "" }, "v_quant_type=PER_CHANNEL", "v_quant_type=PER_TENSOR", "v_scale has not the shape" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        char script[1024], changed[1024], *at;
        struct rig rig;

        write_script(&wrong[i].form, script, sizeof script);
        at = strstr(script, wrong[i].from);
        assert_non_null(at);
        (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - script), script, wrong[i].to,
                       at + strlen(wrong[i].from));
        if (try_open(changed, "reference", "model", &rig, &diag))
            fail_msg("accepted: %s", wrong[i].to);
        if (strstr(diag.text, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].to, diag.text);
    }
}

/* Models in floats: GroupQueryAttention, single operators as exporters write them, and Attention of ONNX with a mask
 * from outside. Input `n` and later hold the past. */
static const char by_groups[] =
    "q : B,S,80\nk : B,S,40\nv : B,S,40\npast_0 : B,2,P,20\npast_1 : B,2,P,20\n" GROUPS
    "y, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, l, t) num_heads=4 kv_num_heads=2\n"
    "-> y, present_0, present_1";
static const char by_capped_groups[] =
    "q : B,S,80\nk : B,S,40\nv : B,S,40\npast_0 : B,2,P,20\npast_1 : B,2,P,20\n" GROUPS
    "y, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, l, t) num_heads=4 kv_num_heads=2 " CAPPED
    "\n-> y, present_0, present_1";
static const char by_smooth_groups[] =
    "q : B,S,80\nk : B,S,40\nv : B,S,40\npast_0 : B,2,P,20\npast_1 : B,2,P,20\n" GROUPS
    "y, present_0, present_1 = ms.GroupQueryAttention(q, k, v, past_0, past_1, l, t) num_heads=4 kv_num_heads=2 "
    "smooth_softmax=1\n-> y, present_0, present_1";
#define BY_HEADS                                                                                                       \
    "q : B,S,80\nk : B,S,40\nv : B,S,40\npast_0 : B,2,P,20\npast_1 : B,2,P,20\nm : B,1,S,T\n"                          \
    "hq = i[4] 0,0,4,20\nhk = i[4] 0,0,2,20\nq0 = Reshape(q, hq)\nq1 = Transpose(q0) perm=0,2,1,3\n"                   \
    "k0 = Reshape(k, hk)\nk1 = Transpose(k0) perm=0,2,1,3\nv0 = Reshape(v, hk)\nv1 = Transpose(v0) perm=0,2,1,3\n"     \
    "present_0 = Concat(past_0, k1) axis=2\npresent_1 = Concat(past_1, v1) axis=-2\n"
static const char by_attention[] =
    BY_HEADS "y0 = Attention(q1, present_0, present_1, m)\ny1 = Transpose(y0) perm=0,2,1,3\njoin = i[3] 0,0,80\n"
             "y = Reshape(y1, join)\n-> y, present_0, present_1";
static const char by_operators[] =
    BY_HEADS "e = i[5] 1,1,2,1,1\nu = i[1] 2\nh = i[4] 0,4,-1,20\nk2 = Unsqueeze(present_0, u)\nk3 = Expand(k2, e)\n"
             "k4 = Reshape(k3, h)\nv2 = Unsqueeze(present_1, u)\nv3 = Expand(v2, e)\nv4 = Reshape(v3, h)\n"
             "kt = Transpose(k4) perm=0,1,3,2\ns = MatMul(q1, kt)\nf = [] 0.2236068\ns1 = Mul(s, f)\n"
             "s2 = Add(s1, m)\np = Softmax(s2) axis=-1\ny0 = MatMul(p, v4)\ny1 = Transpose(y0) perm=0,2,1,3\n"
             "join = i[3] 0,0,80\ny = Reshape(y1, join)\n-> y, present_0, present_1";

#define BY_PAST "q : B,S,80\nk : B,S,40\nv : B,S,40\npast_0 : B,2,P,20\npast_1 : B,2,P,20\nm : B,1,S,T\n"
static const char by_past[] =
    BY_PAST "y, present_0, present_1 = Attention(q, k, v, m, past_0, past_1) q_num_heads=4 kv_num_heads=2\n"
            "-> y, present_0, present_1";
static const char by_capped_past[] =
    BY_PAST "y, present_0, present_1 = Attention(q, k, v, m, past_0, past_1) q_num_heads=4 kv_num_heads=2 " CAPPED
            "\n-> y, present_0, present_1";
static const char by_bool_mask[] =
    BY_PAST "big = [] -1.0\nb = Greater(m, big)\n"
            "y, present_0, present_1 = Attention(q, k, v, b, past_0, past_1) q_num_heads=4 kv_num_heads=2\n"
            "-> y, present_0, present_1";
static const char by_causal_past[] =
    BY_PAST "hq = i[4] 0,0,4,20\nhk = i[4] 0,0,2,20\nq0 = Reshape(q, hq)\nq1 = Transpose(q0) perm=0,2,1,3\n"
            "k0 = Reshape(k, hk)\nk1 = Transpose(k0) perm=0,2,1,3\nv0 = Reshape(v, hk)\n"
            "v1 = Transpose(v0) perm=0,2,1,3\n"
            "y0, present_0, present_1 = Attention(q1, k1, v1, _, past_0, past_1) is_causal=1 scale=0.25\n"
            "y1 = Transpose(y0) perm=0,2,1,3\njoin = i[3] 0,0,80\ny = Reshape(y1, join)\n-> y, present_0, present_1";

static void bind_causal_mask(struct rig *rig, int64_t batch, int64_t at, int64_t rows)
{
    inlay_value *mask = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 4, (const int64_t[]){ batch, 1, rows, at + rows }, &mask, NULL),
                     INLAY_OK);
    for (int64_t k = 0; k < batch * rows * (at + rows); k++)
        ((float *)inlay_value_data(mask))[k] = k % (at + rows) > at + k / (at + rows) % rows ? -INFINITY : 0;
    rig_bind(rig, 5, mask);
}

/* Runs the text with kept states; out [batch, MOST, WIDE]. */
static void run_text(struct rig *rig, bool grouped, int64_t batch, float *out)
{
    int64_t rows = PROMPT;

    for (int64_t at = 0; at + rows <= MOST; at += rows, rows = 1 + (at > 20)) {
        const float *y;

        bind_tokens(rig, batch, at, rows);
        if (grouped)
            bind_mask(rig, 5, batch, at + rows);
        else
            bind_causal_mask(rig, batch, at, rows);
        rig_run(rig);
        y = inlay_value_data(inlay_context_output(rig->context, 0));
        for (int64_t b = 0; b < batch; b++)
            memcpy(out + (b * MOST + at) * WIDE, y + b * rows * WIDE, (size_t)(rows * WIDE) * sizeof *out);
    }
}

/* The difference relative to the root mean square of the first. */
static double distance(const float *left, const float *right, int64_t count)
{
    double sum = 0, size = 0;

    for (int64_t k = 0; k < count; k++) {
        sum += ((double)left[k] - (double)right[k]) * ((double)left[k] - (double)right[k]);
        size += (double)left[k] * (double)left[k];
    }
    return sqrt(sum / size);
}

static void small_caches_of_float_models(void **state)
{
    static const char *const models[] = { by_groups, by_capped_groups, by_smooth_groups, by_attention,  by_operators,
                                          by_past,   by_capped_past,   by_bool_mask,     by_causal_past };
    enum { GROUPED = 3, MODELS = sizeof models / sizeof *models };
    static const char *const widths[] = { "8", "4", "8/4" };
    static const int value_bits[] = { 8, 4, 4 };
    static const double bounds[] = { 0.01, 0.16, 0.1 };
    static float exact[MOST_BATCH * MOST * WIDE], small[PROVIDERS][MOST_BATCH * MOST * WIDE];
    const int64_t count = MOST_BATCH * MOST * WIDE;

    (void)state;
    for (int n = 0; n < 3 * MODELS; n++) {
        const char *bits = widths[n % 3];
        struct rig rig;

        level = "0"; /* the operators of the model */
        assert_true(open_or_skip(models[n / 3], "reference", "model", &rig));
        level = "99";
        keep(&rig);
        run_text(&rig, n / 3 < GROUPED, MOST_BATCH, exact);
        rig_close(&rig);
        for (int p = 0; p < PROVIDERS; p++) {
            inlay_state_info info = { .struct_size = sizeof info };
            inlay_io_info io = { .struct_size = sizeof io };
            inlay_value *now = NULL;
            double away;

            if (!open_or_skip(models[n / 3], providers[p], bits, &rig))
                return;
            assert_true(runs(&rig, "CachedAttention") && !runs(&rig, "Attention"));
            keep(&rig);
            for (uint32_t k = 0; k < 2; k++) {
                assert_int_equal(inlay_session_state(rig.session, k, &info), INLAY_OK);
                assert_true(info.in_place == 1 || p == 1 || level_is_low());
                assert_int_equal(inlay_session_input(rig.session, info.input, &io), INLAY_OK);
                assert_int_equal(io.dtype, INLAY_UINT8);
                assert_int_equal(io.dims[3], SIZE * (k == 0 ? bits[0] - '0' : value_bits[n % 3]) / 8 + 4);
            }
            run_text(&rig, n / 3 < GROUPED, MOST_BATCH, small[p]);
            assert_int_equal(inlay_context_state_get(rig.context, 1, &now, NULL), INLAY_OK);
            assert_int_equal(inlay_value_bytes(now),
                             MOST_BATCH * SHARED * inlay_context_state_length(rig.context) * io.dims[3]);
            inlay_value_unref(now);
            rig_close(&rig);
            away = distance(exact, small[p], count);
            if (!(away <= bounds[n % 3]) || away < 1e-5)
                fail_msg("model %d, %s bits, %s: the result differs by %g", n / 3, bits, providers[p], away);
        }
        if (!(distance(small[0], small[1], count) <= 1e-4)) /* codes at a tie may differ */
            fail_msg("model %d, %s bits: %g between providers", n / 3, bits, distance(small[0], small[1], count));
    }
}

/* The same models in floats have the results of the operators of the model, and states in place. */
static void float_caches(void **state)
{
    static const char *const models[] = { by_attention,   by_operators, by_past,
                                          by_capped_past, by_bool_mask, by_causal_past };
    static float exact[MOST_BATCH * MOST * WIDE], fused[MOST_BATCH * MOST * WIDE];

    (void)state;
    for (size_t n = 0; n < sizeof models / sizeof *models; n++)
        for (int p = 0; p < PROVIDERS; p++) {
            inlay_state_info info = { .struct_size = sizeof info };
            struct rig rig;

            level = "0";
            assert_true(open_or_skip(models[n], "reference", "model", &rig));
            level = "99";
            keep(&rig);
            run_text(&rig, false, MOST_BATCH, exact);
            rig_close(&rig);
            if (!open_or_skip(models[n], providers[p], "model", &rig))
                return;
            for (uint32_t k = 0; k < 2; k++) {
                assert_int_equal(inlay_session_state(rig.session, k, &info), INLAY_OK);
                assert_true(info.in_place == 1 || p == 1 || level_is_low());
            }
            keep(&rig);
            run_text(&rig, false, MOST_BATCH, fused);
            rig_close(&rig);
            if (!(distance(exact, fused, MOST_BATCH * MOST * WIDE) <= 1e-6))
                fail_msg("model %d, %s: the result differs by %g", (int)n, providers[p],
                         distance(exact, fused, MOST_BATCH * MOST * WIDE));
        }
}

/* States of bytes are rewound, forked and set like others. */
static void states_of_bytes(void **state)
{
    inlay_context *branch = NULL, *first;
    inlay_value *ends[3] = { NULL };
    struct rig rig;

    (void)state;
    if (!open_or_skip(by_groups, providers[0], "8", &rig))
        skip();
    keep(&rig);
    for (int64_t t = 0; t < 12; t++) {
        bind_tokens(&rig, 1, t, 1);
        bind_mask(&rig, 5, 1, t + 1);
        rig_run(&rig);
    }
    ends[0] = inlay_value_ref(inlay_context_output(rig.context, 0));
    assert_int_equal(inlay_context_state_rewind(rig.context, 11, NULL), INLAY_OK);
    bind_tokens(&rig, 1, 11, 1);
    bind_mask(&rig, 5, 1, 12);
    rig_run(&rig);
    ends[1] = inlay_value_ref(inlay_context_output(rig.context, 0));
    assert_int_equal(inlay_context_state_rewind(rig.context, 11, NULL), INLAY_OK);
    assert_int_equal(inlay_context_create(rig.session, &branch, NULL), INLAY_OK);
    first = rig.context;
    rig.context = branch;
    keep(&rig);
    assert_int_equal(inlay_context_state_fork(branch, first, NULL), INLAY_OK);
    bind_tokens(&rig, 1, 11, 1);
    bind_mask(&rig, 5, 1, 12);
    rig_run(&rig);
    ends[2] = inlay_value_ref(inlay_context_output(rig.context, 0));
    for (int i = 1; i < 3; i++)
        assert_memory_equal(inlay_value_data(ends[0]), inlay_value_data(ends[i]), (size_t)inlay_value_bytes(ends[0]));
    for (int i = 0; i < 3; i++)
        inlay_value_unref(ends[i]);
    rig.context = first;
    inlay_context_destroy(branch);
    rig_close(&rig);
}

/* A cache that something else reads as well is refused by its name; a model without caches is not changed. */
static void refused_caches(void **state)
{
    static const char read_twice[] =
        BY_HEADS "y0 = Attention(q1, present_0, present_1, m)\nz = Abs(present_1)\n-> y0, z, present_0, present_1";
    static const char plain[] = "x : 2,3\ny = Abs(x)\n-> y";
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    assert_false(try_open(read_twice, "reference", "8", &rig, &diag));
    assert_non_null(strstr(diag.text, "option kv_cache_bits: 'past_1' cannot be kept in 8 bits"));
    assert_true(try_open(plain, "reference", "4", &rig, &diag));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized_caches), cmocka_unit_test(open_forms),
        cmocka_unit_test(refused_forms),    cmocka_unit_test(small_caches_of_float_models),
        cmocka_unit_test(float_caches),     cmocka_unit_test(states_of_bytes),
        cmocka_unit_test(refused_caches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
