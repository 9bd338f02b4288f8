/* Split and Slice as views, before every kind of reader, and views of transposed tensors and of parts, compared with
 * the reference. */
#define COMPARE_TOLERANCE 6e-6f
#include "compare.h"

static struct rig open_on(const char *script, const char *providers, const char *threads)
{
    struct wire wire = { 0 };

    script_model(&wire, 23, script);
    return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                  threads, "level", "0", NULL });
}

static void expect_equal(const char *script)
{
    struct rig rig[3] = { open_on(script, "reference", "1"), open_on(script, "cpu,reference", "1"),
                          open_on(script, "cpu,reference", "2") };

    for (int i = 0; i < 3; i++) {
        script_feed(&rig[i], 1);
        rig_run(&rig[i]);
        rig_run(&rig[i]);
    }
    for (int i = 1; i < 3; i++)
        compare_outputs(&rig[i], &rig[0], script);
    for (int i = 0; i < 3; i++)
        rig_close(&rig[i]);
}

static void splits(void **state)
{
    static const char *const scripts[] = {
        "x : 4,12\na, b, c = Split(x) axis=1 num_outputs=3\n-> a, b, c",
        "x : 6,4\ns = i[2] 2,4\na, b = Split(x, s)\ny = Relu(b)\nz = Softmax(a)\n-> y, z",
        "x : 2,5,24\nw = [8,7]\nr = Relu(x)\na, b, c = Split(r) axis=-1 num_outputs=3\n"
        "p = MatMul(b, w)\nq = Mul(a, c)\ns = Add(q, b)\n-> p, s",
        "x : 3,24\nr = Neg(x)\na, b, c = Split(r) axis=1 num_outputs=3\ny = Concat(c, a, b) axis=1\n"
        "z = Exp(a)\n-> y, z",
        "x : 1,8,6,6\nw = [4,4,3,3]\nr = Relu(x)\na, b = Split(r) axis=1 num_outputs=2\n"
        "y = Conv(a, w) pads=1,1,1,1\nz = Add(y, b)\n-> z",
        "x : 2,32,6,6\nv = [32,32,1,1]\nw = [16,16,3,3]\nr = Conv(x, v)\na, b = Split(r) axis=1 num_outputs=2\n"
        "y = Conv(b, w) pads=1,1,1,1\nz = Concat(y, a) axis=1\nm = MaxPool(a) kernel_shape=2,2\n-> z, m",
        "x : 2,6,96\nw = [96,96]\nh = i[4] 2,6,4,8\nf = i[3] 2,6,32\nu = MatMul(x, w)\n"
        "a, b, c = Split(u) axis=2 num_outputs=3\nq0 = Reshape(a, h)\nk0 = Reshape(b, h)\nv0 = Reshape(c, h)\n"
        "q = Transpose(q0) perm=0,2,1,3\nk = Transpose(k0) perm=0,2,1,3\nv = Transpose(v0) perm=0,2,1,3\n"
        "y0 = Attention(q, k, v)\ny1 = Transpose(y0) perm=0,2,1,3\ny = Reshape(y1, f)\n-> y",
        "x : 1,25,48\nr = Relu(x)\np = i[2] 1,24\na, b = Split(r, p) axis=1\nt = Transpose(b) perm=0,2,1\n"
        "d = i[5] 1,48,2,4,3\nv = Reshape(t, d)\nm = MaxPool(v) kernel_shape=1,3,3 strides=1,2,2 pads=0,1,1,0,1,1\n"
        "n = AveragePool(v) kernel_shape=2,2,1\n-> m, n",
        "x : N,10\nr = Relu(x)\na, b = Split(r) axis=1 num_outputs=2\nt = Transpose(a) perm=1,0\n"
        "y = MatMul(t, b)\n-> y, a",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        expect_equal(scripts[i]);
}

static void slices(void **state)
{
    static const char *const scripts[] = {
        "x : 5,12\ns = i[2] 1,-7\ne = i[2] 100,-2\nr = Relu(x)\ny = Slice(r, s, e)\n-> y",
        "x : 5,12\ns = i[1] -100\ne = i[1] 11\na = i[1] 1\nt = i[1] 3\nr = Neg(x)\ny = Slice(r, s, e, a, t)\n"
        "z = Add(y, y)\n-> z, y",
        "x : 3,7,16\nw = [9,5]\ns = i[1] 4\ne = i[1] 13\na = i[1] 2\nr = Relu(x)\ny = Slice(r, s, e, a)\n"
        "z = MatMul(y, w)\n-> z",
        "x : 3,7,16\nw = [16,5]\ns = i[1] 6\ne = i[1] 7\na = i[1] 1\nr = Relu(x)\ny = Slice(r, s, e, a)\n"
        "z = MatMul(y, w)\n-> z",
        "x : 3,4,8\ns = i[1] 1\ne = i[1] 2\na = i[1] 0\nr = Relu(x)\ny = Slice(r, s, e, a)\nu = i[1] 0\n"
        "z = Squeeze(y, u)\nt = Transpose(z) perm=1,0\nm = MatMul(t, z)\n-> m",
        "x : 4,6,8\ns = i[1] 2\ne = i[1] 5\na = i[1] 1\nh = i[2] 12,8\nr = Relu(x)\ny = Slice(r, s, e, a)\n"
        "z = Reshape(y, h)\nq = Softmax(z)\n-> q",
        "x : 1,1,64\nv = [18,1,8]\nw = [16,9,3]\nr = Conv(x, v) strides=4,\nz0 = i[1] 0\nc = i[1] 9\nd = i[1] 100\n"
        "one = i[1] 1\na = Slice(r, z0, c, one)\nb = Slice(r, c, d, one)\np = Mul(a, a)\nq = Mul(b, b)\ns = Add(p, q)\n"
        "t = Sqrt(s)\ny = Conv(t, w) pads=1,1\nu = Relu(y)\n-> u",
        "x : 6,3\nc = [7,3]\ns = i[1] 1\ne = i[1] 7\nk = Slice(c, s, e)\nt = Transpose(c) perm=1,0\n"
        "u = Slice(t, s, e, s)\ny = Add(x, k)\nz = MatMul(y, u)\n-> k, y, u, z",
        "x : 2,6,4\nh = i[4] 2,3,2,4\ng = i[3] 3,4,4\nr = Relu(x)\ny = Reshape(r, h)\nt = Transpose(y) perm=1,0,2,3\n"
        "z = Reshape(t, g)\nw = [4,3]\nq = MatMul(z, w)\n-> q, z",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        expect_equal(scripts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(splits), cmocka_unit_test(slices) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
