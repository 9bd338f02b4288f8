/* Attention on cpu, by built-in kernels and by oneDNN's GEMMs, compared with the reference: sizes of heads, shared key
 * heads, masks of every shape with -infinity and NaN in them, causal or not, operands in the layouts of Transposes. */
#include "hidden_keys.h"
#include <math.h>

struct attention {
    int batch, heads, key_heads, queries, keys, size, value_size;
    const char *mask; /* dims of the mask, as letters of B H T S, s for S - 3, and 1; NULL = no mask */
    bool causal;
    bool turned;      /* the model's tensors are [batch, length, heads, size], with Transposes around the operator */
    const char *more; /* further attributes; NULL: none */
};

static void write_dims(const struct attention *attention, const char *letters, char *out)
{
    out[0] = '\0';
    for (const char *c = letters; *c != '\0'; c++) {
        int n = *c == 'B'   ? attention->batch
                : *c == 'H' ? attention->heads
                : *c == 'T' ? attention->queries
                : *c == 'S' ? attention->keys
                : *c == 's' ? attention->keys - 3
                            : 1;

        (void)snprintf(out + strlen(out), 16, "%s%d", c == letters ? "" : ",", n);
    }
}

static void write_operand(const struct attention *attention, const char *name, int heads, int length, int size,
                          char *out, size_t room)
{
    if (attention->turned)
        (void)snprintf(out, room, "%s0 : %d,%d,%d,%d\n%s = Transpose(%s0) perm=0,2,1,3\n", name, attention->batch,
                       length, heads, size, name, name);
    else
        (void)snprintf(out, room, "%s : %d,%d,%d,%d\n", name, attention->batch, heads, length, size);
}

static void write_script(const struct attention *attention, char *script, size_t room)
{
    char q[128], k[128], v[128], m[64] = "", mask[96] = "";

    write_operand(attention, "q", attention->heads, attention->queries, attention->size, q, sizeof q);
    write_operand(attention, "k", attention->key_heads, attention->keys, attention->size, k, sizeof k);
    write_operand(attention, "v", attention->key_heads, attention->keys, attention->value_size, v, sizeof v);
    if (attention->mask != NULL) {
        write_dims(attention, attention->mask, m);
        (void)snprintf(mask, sizeof mask, "m : %s\n", m);
    }
    (void)snprintf(script, room, "%s%s%s%sy%s = Attention(q, k, v%s) is_causal=%d %s\n%s-> y", q, k, v, mask,
                   attention->turned ? "0" : "", attention->mask != NULL ? ", m" : "", attention->causal,
                   attention->more != NULL ? attention->more : "",
                   attention->turned ? "y = Transpose(y0) perm=0,2,1,3\n" : "");
}

/* Binds a mask with -infinity in a third of its elements and in its first row, and with NaN in its last element on
 * request. */
static void bind_mask(struct rig *rig, const struct attention *attention, bool nan)
{
    inlay_io_info info = { .struct_size = sizeof info };
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *value = NULL;
    float *input;

    assert_int_equal(inlay_session_input(rig->session, 3, &info), INLAY_OK);
    for (uint32_t d = 0; d < info.rank; d++)
        dims[d] = info.dims[d];
    assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, dims, &value, NULL), INLAY_OK);
    input = inlay_value_data(value);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        input[i] = i % 3 == 1 || i < attention->keys ? -INFINITY : (float)(i % 7) * 0.5f;
    if (nan)
        input[inlay_value_count(value) - 1] = NAN;
    rig_bind(rig, 3, value);
}

/* mask_kind: 0 is a random mask, 1 has -infinity, 2 has NaN as well. */
static void expect_same(const struct attention *attention, const char *threads, int mask_kind)
{
    static const char *const theirs[] = { "providers", "reference", NULL };
    const char *const ours[] = { "providers", "cpu,reference", "policy",           "priority", "intra_threads",
                                 threads,     "pin",           "op:Attention=cpu", NULL };
    char script[768];
    struct rig rig[2];

    write_script(attention, script, sizeof script);
    for (int i = 0; i < 2; i++) {
        struct wire wire = { 0 };

        script_model(&wire, 23, script);
        rig[i] = rig_open(&wire, i == 0 ? ours : theirs);
        script_feed(&rig[i], 5);
        if (attention->mask != NULL && mask_kind > 0)
            bind_mask(&rig[i], attention, mask_kind > 1);
        rig_run(&rig[i]);
    }
    {
        inlay_value *got = inlay_context_output(rig[0].context, 0), *want = inlay_context_output(rig[1].context, 0);
        const float *input = inlay_value_data(got), *output = inlay_value_data(want);

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        for (int64_t i = 0; i < inlay_value_count(got); i++)
            if (!(isnan(input[i]) && isnan(output[i])) && !(fabsf(input[i] - output[i]) <= 1e-5f))
                fail_msg("element %lld is %g, not %g, with %s threads, mask %d, in\n%s", (long long)i, (double)input[i],
                         (double)output[i], threads, mask_kind, script);
    }
    rig_close(&rig[0]);
    rig_close(&rig[1]);
}

static void against_reference(void **state)
{
    static const struct attention cases[] = {
        { 1, 1, 1, 1, 1, 1, 1, NULL, false, false, NULL },
        { 2, 3, 3, 5, 7, 16, 16, NULL, false, false, NULL },
        { 1, 2, 2, 128, 128, 64, 64, "B11S", false, true, NULL },
        { 2, 2, 2, 49, 49, 32, 32, "1HTS", false, true, "scale=0.3" },
        { 2, 2, 2, 13, 70, 33, 20, "BHTS", false, false, NULL },
        { 1, 4, 4, 1, 200, 64, 64, "BHTS", false, true, NULL },
        { 1, 4, 4, 3, 65, 80, 80, "TS", false, true, NULL },
        { 1, 2, 2, 300, 300, 8, 8, NULL, true, false, NULL },
        { 1, 2, 2, 20, 50, 24, 24, "1S", true, true, NULL },
        { 1, 2, 2, 50, 20, 24, 100, "TS", true, false, NULL },
        { 1, 1, 1, 260, 900, 17, 5, "TS", false, false, NULL },
        { 1, 1, 1, 2, 1500, 40, 40, NULL, true, false, NULL },
        { 2, 24, 24, 41, 41, 32, 32, "1HTS", false, true, NULL },
        { 1, 2, 2, 9, 20, 16, 16, "11s", false, false, NULL },
        { 2, 2, 2, 30, 30, 16, 16, "BHTs", true, true, NULL },
        { 1, 2, 2, 3, 40, 16, 16, "Ts", false, false, NULL },
        { 2, 3, 3, 5, 7, 16, 16, NULL, false, false, "softcap=0.5" },
        { 1, 2, 2, 128, 128, 64, 64, "B11S", false, true, "softcap=1.5 scale=0.3" },
        { 2, 4, 2, 1, 70, 32, 32, "BHTS", false, false, "softcap=2.0" },
        { 1, 2, 2, 60, 60, 24, 24, NULL, true, true, "softcap=0.7 scale=2.0" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 0; way < 2 * 3; way++)
            if (way % 3 == 0 || cases[i].mask != NULL)
                expect_same(&cases[i], way / 3 ? "2" : "1", way % 3);
}

static void shared_keys(void **state)
{
    static const struct attention cases[] = {
        { 1, 8, 2, 1, 90, 64, 64, "11TS", false, true, NULL },
        { 2, 6, 3, 30, 40, 16, 16, "BHTS", false, false, NULL },
        { 1, 4, 1, 17, 17, 32, 32, NULL, true, true, NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int mask_kind = 0; mask_kind < 3; mask_kind++)
            expect_same(&cases[i], mask_kind % 2 ? "2" : "1", mask_kind);
}

/* One query per head, and fewer heads of keys than threads: the threads divide the heads of queries. */
static void same_bits_with_threads(void **state)
{
    static const struct attention cases[] = {
        { 1, 5, 1, 1, 40, 64, 64, NULL, false, false, NULL },
        { 1, 8, 1, 1, 700, 64, 48, "11TS", false, true, NULL },
        { 1, 21, 3, 1, 33, 16, 16, "BHTS", false, false, NULL },
        { 1, 40, 1, 1, 50, 32, 32, NULL, false, false, "scale=0.3" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const threads[] = { "1", "2", "3", "4" };
        char script[768];
        struct rig rig[4];

        write_script(&cases[i], script, sizeof script);
        for (int t = 0; t < 4; t++) {
            const char *const options[] = { "providers",     "cpu,reference", "policy", "priority",
                                            "intra_threads", threads[t],      NULL };
            struct wire wire = { 0 };
            const inlay_value *value, *first;

            script_model(&wire, 23, script);
            rig[t] = rig_open(&wire, options);
            script_feed(&rig[t], 5);
            rig_run(&rig[t]);
            value = inlay_context_output(rig[t].context, 0);
            first = inlay_context_output(rig[0].context, 0);
            if (memcmp(inlay_value_data(value), inlay_value_data(first), inlay_value_bytes(first)) != 0)
                fail_msg("%s threads change bits of\n%s", threads[t], script);
        }
        for (int t = 0; t < 4; t++)
            rig_close(&rig[t]);
    }
}

/* What hidden keys and values hold, on the kernels of cpu and of the reference, with and without the optimiser. */
static void hidden_keys(void **state)
{
    static const char *const providers[] = { "cpu,reference", "reference" }, *const levels[] = { "99", "0" };

    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++)
        hidden_expect((const char *const[]){ "providers", providers[seed % 2], "level", levels[seed / 2 % 2],
                                             "intra_threads", seed % 3 == 0 ? "2" : "1", "kv_cache_bits",
                                             seed % 5 == 0   ? "8"
                                             : seed % 5 == 1 ? "4"
                                                             : "model",
                                             NULL },
                      seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(against_reference), cmocka_unit_test(shared_keys),
                                        cmocka_unit_test(same_bits_with_threads), cmocka_unit_test(hidden_keys) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
