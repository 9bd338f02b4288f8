/* Constants of float16 and bfloat16 that are cast to float. If only GEMMs and convolutions read them, each pack
 * converts them, or products read them without a pack; otherwise they are folded. The results must equal the
 * reference's on floats. */
#include "rig.h"
#include "session/session.h"
#include <math.h>

enum { MOST = 1 << 17 };

static const struct row {
    const char *op;
    int64_t dims[4];
    const char *shapes[3]; /* of x */
    const char *extra;     /* an additional node: "factor" multiplies the result, "weights" reads the weights again */
    uint32_t rank;
    bool turned, stays; /* turned: MatMul by a Transpose */
} rows[] = {
    { "MatMul", { 256, 288 }, { "7,256", "1,256", "66,256" }, NULL, 2, false, true },
    { "MatMul", { 300, 416 }, { "9,416", "1,416", "66,416" }, NULL, 2, true, true },
    { "MatMul", { 300, 410 }, { "9,410", "1,410", "66,410" }, NULL, 2, true, true },
    { "MatMul", { 300, 416 }, { "9,416", "4,416", "33,416" }, "factor", 2, true, true },
    { "Gemm", { 288, 256 }, { "7,256", "1,256", "65,256" }, NULL, 2, true, true },
    { "Conv", { 64, 128, 3, 3 }, { "1,128,9,9", "2,128,5,7", "1,128,20,3" }, NULL, 4, false, true },
    { "Conv", { 256, 288, 1, 1 }, { "1,288,9,9", "1,288,1,1", "3,288,4,4" }, NULL, 4, false, true },
    { "Conv", { 256, 288, 1, 1 }, { "1,288,9,9", "1,288,1,1", "3,288,4,4" }, "factor", 4, false, false },
    { "MatMul", { 256, 256 }, { "256,256", "256,256", "256,256" }, "weights", 2, false, false },
    { "MatMul",
      { 96, 64 },
      { "7,96", "1,96", "5,96" },
      NULL,
      2,
      false,
      false }, /* few weights: they are folded to floats */
};
static uint16_t halves[MOST];
static float x[MOST];

/* odd: additional bytes, which shift the offset of the weights in the file. shape: of x; NULL: with any number of
 * rows. */
static struct wire model_of(const struct row *row, int dtype, uint32_t odd, const char *shape)
{
    static const float factor = 0.75f;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), t;
    char name[16] = "nnnnnnnn", rows_of[32];
    int64_t count = 1;

    name[odd + 1] = '\0';
    for (uint32_t d = 0; d < row->rank; d++)
        count *= row->dims[d];
    assert_true(count <= MOST);
    (void)snprintf(rows_of, sizeof rows_of, "n%s", strchr(row->shapes[0], ','));
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, shape != NULL ? shape : row->rank == 4 ? "n,c,h,w" : rows_of);
    t = wire_begin(&wire, MW_INITIALIZER);
    mw_tensor_head(&wire, name, dtype, row->rank, row->dims);
    wire_bytes(&wire, 9, halves, (size_t)count * sizeof *halves);
    wire_end(&wire, t);
    mw_node_int(&wire, "Cast", name, "w", "to", INLAY_FLOAT);
    if (row->turned && strcmp(row->op, "Gemm") == 0)
        mw_node_int(&wire, row->op, "x,w", "p", "transB", 1);
    else if (row->turned)
        mw_node(&wire, "Transpose", "w", "t");
    if (!row->turned || strcmp(row->op, "Gemm") != 0)
        mw_node(&wire, row->op, row->turned ? "x,t" : "x,w", "p");
    if (row->extra != NULL && strcmp(row->extra, "factor") == 0) {
        mw_scalar(&wire, "f", INLAY_FLOAT, (double)factor);
        mw_node(&wire, "Mul", "p,f", "y");
    } else {
        mw_node(&wire, row->extra != NULL ? "Add" : "Neg", row->extra != NULL ? "p,w" : "p", "y");
    }
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    wire_end(&wire, mark);
    return wire;
}

static uint32_t casts_left(const struct rig *rig)
{
    const struct graph *graph = rig->session->model->main;
    uint32_t count = 0;

    for (uint32_t node = 0; node < graph->node_count; node++)
        count += strcmp(graph->nodes[node]->info.op_type.data, "Cast") == 0;
    return count;
}

static void check(const struct row *row, int dtype, uint32_t odd)
{
    static const char *const ours[] = { "providers", "cpu", NULL };
    static const char *const plain[] = { "providers", "reference", "level", "0", NULL };
    struct wire a = model_of(row, dtype, odd, NULL), b = model_of(row, dtype, odd, NULL);
    struct rig got = rig_open(&a, ours), want = rig_open(&b, plain);

    if (casts_left(&got) != (row->stays ? 1 : 0))
        fail_msg("%s of %s: %u casts are left", row->op, inlay_dtype_name((inlay_dtype)dtype), casts_left(&got));
    for (int turn = 0; turn < 4; turn++) { /* each shape finds existing packs, or makes new ones from them */
        const inlay_value *value, *z;
        float top = 0;

        rig_floats(&got, 0, row->shapes[turn % 3], x);
        rig_floats(&want, 0, row->shapes[turn % 3], x);
        rig_run(&got);
        rig_run(&want);
        value = inlay_context_output(got.context, 0);
        z = inlay_context_output(want.context, 0);
        assert_int_equal(inlay_value_count(value), inlay_value_count(z));
        for (int64_t i = 0; i < inlay_value_count(z); i++)
            top = fmaxf(top, fabsf(((const float *)inlay_value_data((inlay_value *)(uintptr_t)z))[i]));
        assert_true(top > 0 && isfinite(top));
        for (int64_t i = 0; i < inlay_value_count(z); i++) {
            const float p = ((const float *)inlay_value_data((inlay_value *)(uintptr_t)value))[i];
            const float q = ((const float *)inlay_value_data((inlay_value *)(uintptr_t)z))[i];

            if (!(fabsf(p - q) <= 2e-5f * top)) /* with AMX, products of terms of bfloat16: numerics.md */
                fail_msg("%s of %s, x %s: element %lld is %.9g, not %.9g, off by %.2g of the largest", row->op,
                         inlay_dtype_name((inlay_dtype)dtype), row->shapes[turn % 3], (long long)i, (double)p,
                         (double)q, (double)(fabsf(p - q) / top));
        }
    }
    rig_close(&got);
    rig_close(&want);
}

static void as_floats(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++) {
        x[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
        halves[i] = (uint16_t)(0x3800 + i % 8192 * 7919 % 0x05ff + (i % 3 == 0 ? 0x8000 : 0)); /* both: below 2 */
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint32_t odd = 0; odd < 4; odd++)
            check(&rows[i], odd < 2 ? INLAY_FLOAT16 : INLAY_BFLOAT16, odd);
}

/* Elements of 16 bits that few rows are multiplied by are read in the file, wherever they are; CPUs with AMX pack
 * them. */
static void in_the_file(void **state)
{
    static const struct row row = { "MatMul", { 300, 416 }, { "8,416" }, NULL, 2, true, true };
    uint32_t packs[4];

    (void)state;
    for (uint32_t turn = 0; turn < 4; turn++) { /* one of two addresses is odd */
        struct wire wire = model_of(&row, turn < 2 ? INLAY_FLOAT16 : INLAY_BFLOAT16, turn % 2, row.shapes[0]);
        struct rig rig = rig_open(&wire, (const char *const[]){ "providers", "cpu", NULL });
        packs_count count;

        rig_floats(&rig, 0, row.shapes[0], x);
        rig_run(&rig);
        count = packs_counted(rig.session->main->packs);
        packs[turn] = count.found + count.made;
        rig_close(&rig);
        assert_int_equal(packs[turn], packs[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_floats), cmocka_unit_test(in_the_file) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
