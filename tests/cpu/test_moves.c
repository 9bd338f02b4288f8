/* Ops that only move elements, compared with the reference: transposes and layout changes of many shapes,
 * concatenations of images, and Pad in every mode. The results must be equal, since nothing is computed. */
#define COMPARE_TOLERANCE 6e-6f
#include "compare.h"

static void expect_all(const compare_case *rows, size_t count, int64_t opset)
{
    for (size_t i = 0; i < count; i++)
        compare_expect(&rows[i], opset, NULL);
}
#define EXPECT_ALL(rows, opset) expect_all(rows, sizeof(rows) / sizeof *(rows), opset)

/* Sizes around the 16 x 16 squares of the transpose kernel, and around the units of threads. */
static void transposes(void **state)
{
    static const int64_t sizes[] = { 1, 2, 3, 15, 16, 17, 33, 65, 300 };
    const size_t n = sizeof sizes / sizeof *sizes;
    char script[256];

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            (void)snprintf(script, sizeof script, "x : %d,%d\nr = Neg(x)\nt = Transpose(r) perm=1,0\ny = Abs(t)\n-> y",
                           (int)sizes[i], (int)sizes[j]);
            compare_expect(&(compare_case){ "Transpose", script }, 17, NULL);
        }
    }
}

/* Pixels with few channels, in many units. */
static void few_rows(void **state)
{
    static const int rows[] = { 2, 3, 4, 7, 15 }, columns[] = { 8191, 8192, 20003 };
    char script[256];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t j = 0; j < sizeof columns / sizeof *columns; j++) {
            (void)snprintf(script, sizeof script,
                           "x : 2,%d,%d\nr = Neg(x)\nt = Transpose(r) perm=0,2,1\ny = Abs(t)\n-> y", rows[i],
                           columns[j]);
            compare_expect(&(compare_case){ "Transpose", script }, 17, NULL);
        }
    }
}

static void permutations(void **state)
{
    static const char *const perms[] = { "0,1,3,2", "0,2,1,3", "0,2,3,1", "0,3,1,2", "0,3,2,1", "1,0,2,3",
                                         "1,3,0,2", "2,0,3,1", "2,3,0,1", "3,0,1,2", "3,1,2,0", "3,2,1,0" };
    static const char *const shapes[] = { "2,3,4,5", "1,17,33,2", "3,1,20,37", "2,64,1,70", "4,40,18,32" };
    char script[256];

    (void)state;
    for (size_t perm = 0; perm < sizeof perms / sizeof *perms; perm++) {
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
            (void)snprintf(script, sizeof script, "x : %s\nr = Neg(x)\nt = Transpose(r) perm=%s\ny = Abs(t)\n-> y, t",
                           shapes[shape], perms[perm]);
            compare_expect(&(compare_case){ "Transpose", script }, 17, NULL);
        }
    }
}

/* Rows after a slice, images whose channels move, and intermediate values that are outputs. */
static void layouts(void **state)
{
    static const compare_case rows[] = {
        { "Slice", "x : 3,40,9\ns = i[2] 1,2\ne = i[2] 35,8\na = i[2] 1,2\nr = Neg(x)\ny = Slice(r, s, e, a)\n"
                   "t = Transpose(y) perm=2,0,1\nz = Abs(t)\n-> z, y" },
        { "Slice", "x : 5,64\ns = i[1] 1\ne = i[1] 60\na = i[1] 1\nt = i[1] 3\nr = Neg(x)\ny = Slice(r, s, e, a, t)\n"
                   "u = Transpose(y) perm=1,0\nz = Abs(u)\n-> z" },
        { "Conv", "x : 2,3,19,23\nw = [24,3,3,3]\nc = Conv(x, w) pads=1,1,1,1\ns = i[3] 2,24,-1\n"
                  "f = Reshape(c, s)\nt = Transpose(f) perm=0,2,1\ny = Softmax(t) axis=2\n-> y, c" },
        { "Conv", "x : 1,40,70\nw = [48,40,3]\nr = Neg(x)\nc = Conv(r, w) pads=1,1\nt = Transpose(c) perm=0,2,1\n"
                  "y = Abs(t)\n-> y, c" },
        { "Concat", "x : 1,8,20,20\nw = [24,8,1,1]\nd = [24,1,3,3]\nc = Conv(x, w)\n"
                    "e = Conv(c, d) pads=1,1,1,1 group=24\ny = Concat(c, e) axis=1\nz = Relu(y)\n-> z" },
        { "Concat", "x : 2,8,20,21\nw = [5,8,1,1]\nv = [1,8,3,3]\nc = Conv(x, w)\nd = Conv(x, v) pads=1,1,1,1\n"
                    "p = MaxPool(x) kernel_shape=3,3 pads=1,1,1,1 strides=1,1\ny = Concat(p, c, d, c) axis=1\n"
                    "u = [7,19,1,1]\nz = Conv(y, u)\n-> z, y" },
        { "Concat", "x : 2,8,4,6,5\nw = [16,8,1,1,1]\nc = Conv(x, w)\nd = Relu(c)\ne = Sigmoid(c)\n"
                    "y = Concat(d, e, x) axis=1\nz = Neg(y)\n-> z" },
        /* Groups of 16 channels: oneDNN's kernel, in blocks. */
        { "Conv", "x : 2,3,20,23\nw = [64,3,3,3]\nv = [64,16,3,3]\nu = [32,64,1,1]\nc = Conv(x, w) pads=1,1,1,1\n"
                  "d = Conv(c, v) pads=1,1,1,1 strides=2,2 group=4\ny = Conv(d, u)\n-> y, d" },
    };

    (void)state;
    EXPECT_ALL(rows, 17);
}

static void pads(void **state)
{
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap" };
    static const char *const cases[] = {
        "x : 4,7\np = i[4] 0,2,0,3\nr = Neg(x)\ny = Pad(r, p) mode=%s\nz = Abs(y)\n-> z, y",
        "x : 4,7\np = i[4] 1,0,3,0\nr = Neg(x)\ny = Pad(r, p) mode=%s\nz = Abs(y)\n-> z, y",
        "x : 3,5,6,7\np = i[8] 1,0,2,1,0,0,1,2\nr = Neg(x)\ny = Pad(r, p) mode=%s\nz = Abs(y)\n-> z",
        "x : 3,5,6,7\np = i[8] 1,2,2,1,0,1,1,2\nr = Neg(x)\ny = Pad(r, p) mode=%s\nz = Abs(y)\n-> z",
        ("x : 2,3,40,50\nw = [24,3,3,3]\nc = Conv(x, w)\np = i[8] 0,0,3,4,0,0,5,1\ny = Pad(c, p) mode=%s\n"
         "m = Neg(y)\nv = [8,24,3,3]\nz = Conv(m, v)\n-> z"),
        "x : 2,3,9,8\nw = [20,3,3,3]\nc = Conv(x, w)\np = i[8] 0,2,0,0,0,3,0,0\ny = Pad(c, p) mode=%s\n-> y",
        "x : 1,30,1000\np = i[6] 0,0,20,0,0,30\nr = Neg(x)\ny = Pad(r, p) mode=%s\nz = Abs(y)\n-> z",
        "x : 6,5,4\np = i[2] 1,2\nv = [1] 1.5\na = i[1] -2\nr = Neg(x)\ny = Pad(r, p, v, a) mode=%s\nz = Abs(y)\n-> z",
        "x : 3,5,41\np = i[6] 1,0,3,0,1,4\nv = [1] 1.5\nr = Neg(x)\ny = Pad(r, p, v) mode=%s\nz = Abs(y)\n-> z",
        "x : 70,9,8\np = i[6] 0,1,0,1,0,0\nv = [1] -2\nr = Neg(x)\ny = Pad(r, p, v) mode=%s\nz = Abs(y)\n-> z",
        "x : 5\np = i[2] 3,4\nr = Neg(x)\ny = Pad(r, p) mode=%s\nz = Abs(y)\n-> z",
    };
    char script[400];

    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            (void)snprintf(script, sizeof script, cases[c], modes[m]);
#pragma GCC diagnostic pop
            compare_expect(&(compare_case){ "Pad", script }, 19, NULL);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes), cmocka_unit_test(few_rows), cmocka_unit_test(permutations),
        cmocka_unit_test(layouts),    cmocka_unit_test(pads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
