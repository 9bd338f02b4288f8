/* Packed weights of providers that use the kit: the second session reads those of the first, and computes the same
 * results. Weights have odd addresses, as in real files. */
#include "folder.h"
#include "model.h"
#include "graph_script.h"
#include "session/session.h"

enum { OUTPUTS = 4 };
static const uint32_t counts[OUTPUTS] = { 8 * 203, 5 * 29, 5 * 15 * 15, 8 * 7 * 7 };

struct result {
    float y[OUTPUTS][8 * 203];
    packs_count count;
};

/* Two matrix multiplications (B along k, and along n), a recurrent layer, a transposed convolution, and a convolution
 * with groups. The length of the name `lead` shifts the data that follows in the file. */
static struct wire make(const char *lead)
{
    static const int64_t t_dims[] = { 97, 61 }, m_dims[] = { 97, 203 }, w_dims[] = { 1, 4 * 29, 37 },
                         r_dims[] = { 1, 4 * 29, 29 }, b_dims[] = { 1, 8 * 29 }, ct_dims[] = { 6, 5, 3, 3 },
                         c_dims[] = { 8, 3, 3, 3 };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    script_add(&wire,
               "%s = [1] 1\n"
               "a : 8,61\n"
               "s : 5,1,37\n"
               "c : 1,6,7,7",
               lead);
    model_weights(&wire, "t", 2, t_dims, -0.5f);
    model_weights(&wire, "m", 2, m_dims, -0.4f);
    model_weights(&wire, "w", 3, w_dims, -0.3f);
    model_weights(&wire, "r", 3, r_dims, -0.6f);
    model_weights(&wire, "b", 2, b_dims, -0.2f);
    model_weights(&wire, "ct", 4, ct_dims, -0.7f);
    model_weights(&wire, "cw", 4, c_dims, -0.1f);
    script_add(&wire, "g = Gemm(a,t) transB=1\n"
                      "y0 = MatMul(g,m)\n"
                      "y1 = LSTM(s,w,r,b) hidden_size=29\n"
                      "y2 = ConvTranspose(c,ct) strides=2,2\n"
                      "y3 = Conv(c,cw) group=2 pads=1,1,1,1\n"
                      "-> y0 : 8,203\n"
                      "-> y1 : 5,1,1,29\n"
                      "-> y2 : 1,5,15,15\n"
                      "-> y3 : 1,8,7,7");
    wire_end(&wire, mark);
    return wire;
}

/* Writes the model to page-aligned memory. Copies of large constants to aligned memory count as packed weights, so that
 * the data must have the same alignment in all sessions. */
static struct wire made_at_page(const char *lead)
{
    struct wire wire = make(lead);
    const size_t room = (wire.count + 4095) / 4096 * 4096;
    void *page = aligned_alloc(4096, room);

    assert_non_null(page);
    memcpy(page, wire.bytes, wire.count);
    free(wire.bytes);
    wire.bytes = page;
    return wire;
}

static struct result run(const char *providers, const char *cache, const char *lead)
{
    static float x[8 * 61];
    struct wire wire = made_at_page(lead);
    struct rig rig = rig_open(
        &wire, (const char *const[]){ "providers", providers, "policy", "priority", "cache_dir", cache, NULL });
    struct result out;

    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)(i % 19) / 19 - 0.5f;
    rig_floats(&rig, 0, "8,61", x);
    rig_floats(&rig, 1, "5,1,37", x);
    rig_floats(&rig, 2, "1,6,7,7", x);
    rig_run(&rig);
    memset(&out, 0, sizeof out);
    for (uint32_t i = 0; i < OUTPUTS; i++)
        memcpy(out.y[i], inlay_value_data(inlay_context_output(rig.context, i)), counts[i] * sizeof out.y[i][0]);
    out.count = packs_counted(rig.session->main->packs);
    rig_close(&rig);
    return out;
}

static void second_start(void **state)
{
    static const struct {
        const char *providers;
        uint32_t least;
    } rows[] = {
        { "reference", 4 }, /* at least LSTM, Gemm, MatMul and a convolution on every CPU */
        { "openblas?,reference", 1 },
    };
    static const char *const leads[] = { "l", "le", "lea", "lead" };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct result plain = run(rows[i].providers, "", leads[0]);

        assert_int_equal(plain.count.made + plain.count.found, 0);
        for (size_t l = 0; l < sizeof leads / sizeof leads[0]; l++) { /* at all alignments */
            struct folder folder = folder_make();
            const struct result first = run(rows[i].providers, folder.path, leads[l]),
                                second = run(rows[i].providers, folder.path, leads[l]);

            assert_true(first.count.made >= rows[i].least);
            assert_int_equal(first.count.found, 0);
            assert_int_equal(second.count.made, 0);
            assert_int_equal(second.count.found, first.count.made);
            assert_memory_equal(first.y, plain.y, sizeof plain.y);
            assert_memory_equal(second.y, plain.y, sizeof plain.y);
            folder_remove(&folder);
        }
    }
}

/* Weights that are packed in several pieces, whose file pages are released in between: pieces along k and along n. */
static void many_pieces(void **state)
{
    static const int64_t dims[2][2] = { { 2989, 1523 }, { 1523, 2989 } };
    static float x[4 * 1523], y[2][4 * 2989];

    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)(i % 23) / 23 - 0.5f;
    for (int transposed = 0; transposed < 2; transposed++) {
        struct folder folder = folder_make();

        for (int round = 0; round < 2; round++) {
            struct wire wire = { 0 };
            wire_mark mark = mw_begin(&wire, 8, 17), n;
            struct rig rig;

            mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "4,1523");
            model_weights(&wire, "w", 2, dims[1 - transposed], -0.5f);
            n = mw_node_begin(&wire, "Gemm", "x,w", "y");
            mw_attr_int(&wire, "transB", transposed);
            wire_end(&wire, n);
            mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, "4,2989");
            wire_end(&wire, mark);
            rig = rig_open(&wire, (const char *const[]){ "providers", "openblas?,reference", "policy", "priority",
                                                         "cache_dir", folder.path, NULL });
            rig_floats(&rig, 0, "4,1523", x);
            rig_run(&rig);
            memcpy(y[round], inlay_value_data(inlay_context_output(rig.context, 0)), sizeof y[round]);
            rig_close(&rig);
        }
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        for (int64_t i = 0; i < 4 * 2989; i += 601) {
            double sum = 0, far;

            for (int64_t k = 0; k < 1523; k++) {
                int64_t at = transposed ? i % 2989 * 1523 + k : k * 2989 + i % 2989;
                sum += (double)x[i / 2989 * 1523 + k] * ((double)(float)(at * 7919 % 1009) / 1009 - 0.5);
            }
            far = sum - (double)y[0][i];
            if (!(far < 1e-2 && far > -1e-2))
                fail_msg("element %lld is %g, not %g", (long long)i, (double)y[0][i], sum);
        }
        folder_remove(&folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(second_start), cmocka_unit_test(many_pieces) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
