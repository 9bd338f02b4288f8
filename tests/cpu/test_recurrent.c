/* LSTM, GRU and RNN as steps of regions, compared with the reference: every direction, layout, omitted inputs and
 * outputs, constant and computed weights, ops before and after them. */
#include "compare.h"

/* Weights of an LSTM, a GRU and an RNN with 5 inputs and 7 states in `d` directions. */
#define LSTM(d) "w = [" d ",28,5]\nr = [" d ",28,7]\nb = [" d ",56]\np = [" d ",21]\n"
#define GRU(d) "w = [" d ",21,5]\nr = [" d ",21,7]\nb = [" d ",42]\n"
#define RNN(d) "w = [" d ",7,5]\nr = [" d ",7,7]\nb = [" d ",14]\n"
/* Two of three sequences end early; the int32 lengths are a Cast of a constant. */
#define LENGTHS "li = i[3] 2,4,1\nl = Cast(li) to=6\n"

static void run(const compare_case *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        compare_expect(&rows[i], 14, NULL);
}

static void layers(void **state)
{
    static const compare_case rows[] = {
        { "LSTM", "x : 4,3,5\n" LSTM("1") "y, h, c = LSTM(x, w, r, b) hidden_size=7\n-> y, h, c" },
        { "LSTM", "x : 4,3,5\n" LSTM("1") "y = LSTM(x, w, r) hidden_size=7 direction=reverse\n-> y" },
        { "LSTM", "x : N,3,5\nh0 : 2,3,7\nc0 : 2,3,7\n" LSTM("2") LENGTHS
          "y, h, c = LSTM(x, w, r, b, l, h0, c0, p) hidden_size=7 direction=bidirectional\n-> y, h, c" },
        { "LSTM", "x : 3,N,5\n" LSTM("2") "y, h, c = LSTM(x, w, r, b) hidden_size=7 direction=bidirectional layout=1\n"
                                          "-> c, y, h" },
        { "LSTM", "x : 4,3,5\nw : 1,28,5\nr : 1,28,7\ny, h = LSTM(x, w, r) hidden_size=7 clip=0.5\n-> h, y" },
        { "LSTM", "x : 4,3,5\nr : 1,28,7\nv = [1,28,5]\nw = Neg(v)\ny, h = LSTM(x, w, r) hidden_size=7\n-> h, y" },
        { "LSTM", "x : 4,3,5\n" LSTM("1") "y = LSTM(x, w, r, b) hidden_size=7 input_forget=1\n-> y" },
        { "GRU", "x : 4,N,5\n" GRU("1") "y, h = GRU(x, w, r, b) hidden_size=7\n-> y, h" },
        { "GRU", "x : 4,3,5\nh0 : 2,3,7\n" GRU("2") LENGTHS
          "y, h = GRU(x, w, r, b, l, h0) hidden_size=7 direction=bidirectional linear_before_reset=1\n-> y, h" },
        { "RNN", "x : 4,3,5\n" RNN("2") "y, h = RNN(x, w, r, b) hidden_size=7 direction=bidirectional\n-> y, h" },
        { "RNN", "x : 4,3,5\n" RNN("1") "y = RNN(x, w, r) hidden_size=7 direction=reverse\n-> y" },
    };

    (void)state;
    run(rows, sizeof rows / sizeof *rows);
}

/* Y, or the states, are omitted. */
static void omitted(void **state)
{
    static const compare_case rows[] = {
        { "LSTM", "x : 4,3,5\n" LSTM("1") "_, h = LSTM(x, w, r, b) hidden_size=7\n-> h" },
        { "LSTM", "x : 4,3,5\n" LSTM("1") "_, _, c = LSTM(x, w, r, b) hidden_size=7\nz = Tanh(c)\n-> z" },
        { "LSTM", "x : 4,3,5\n" LSTM("1") "y, _, c = LSTM(x, w, r, b) hidden_size=7\n-> y, c" },
        { "GRU", "x : 4,3,5\n" GRU("1") "_, h = GRU(x, w, r, b) hidden_size=7\nm = [7,4]\nz = MatMul(h, m)\n-> z" },
        { "GRU", "x : 4,3,5\n" GRU("1") "y, h = GRU(x, w, r, b) hidden_size=7\nz = Relu(y)\n-> z" }, /* no op reads h */
    };

    (void)state;
    run(rows, sizeof rows / sizeof *rows);
}

/* Within a network: inputs in another layout, readers of several outputs. */
static void inside_networks(void **state)
{
    static const compare_case rows[] = {
        { "LSTM", "x : 3,4,5\n" LSTM("1") "t = Transpose(x) perm=1,0,2\na = Tanh(t)\n"
                                          "y, h, c = LSTM(a, w, r, b) hidden_size=7\ns = Transpose(y) perm=2,1,0,3\nz "
                                          "= Sigmoid(s)\nu = Add(h, c)\n"
                                          "-> z, u" },
        { "LSTM", "x : 1,6,9\nk = [5,6,3]\n" LSTM("1") "f = Conv(x, k) pads=1,1\ne = Relu(f)\n"
                                                       "t = Transpose(e) perm=2,0,1\ny, h, c = LSTM(t, w, r, b) "
                                                       "hidden_size=7\na = i[1] 1\nq = Squeeze(y, a)\n"
                                                       "m = [7,3]\nz = MatMul(q, m)\n-> z, h" },
        { "GRU", "x : 4,3,5\n" GRU(
                     "1") "v = [1,21,7]\ny, h = GRU(x, w, r, b) hidden_size=7\na = i[1] 1\n"
                          "q = Squeeze(y, a)\ng, k = GRU(q, v, r, b, _, h) hidden_size=7\nd = Sub(g, y)\n-> d, k" },
        { "LSTM", "x : 4,3,5\n" LSTM(
                      "1") "y, h, c = LSTM(x, w, r, b) hidden_size=7\ne = Mul(w, w)\n"
                           "f = ReduceSum(e) keepdims=0\nz = Mul(y, f)\n-> z" }, /* another op also reads the weights */
    };

    (void)state;
    run(rows, sizeof rows / sizeof *rows);
}

static void feed_empty(struct rig *rig)
{
    script_feed_sized(rig, 0, 5, 0);
}

/* Without steps, the last state is the initial one. Without samples, the outputs are empty. */
static void empty_tensors(void **state)
{
    static const compare_case rows[] = {
        { "LSTM", "x : N,3,5\nh0 : 1,3,7\n" LSTM("1") "y, h, c = LSTM(x, w, r, b, _, h0) hidden_size=7\n-> y, h, c" },
        { "GRU", "x : 4,N,5\n" GRU("1") "y, h = GRU(x, w, r, b) hidden_size=7\nz = Relu(y)\n-> z, h" },
        { "GRU", "x : N,3,5\n" GRU("1") "e = Tanh(x)\ny, h = GRU(e, w, r, b) hidden_size=7\nz = Relu(h)\n-> y, z" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare_expect(&rows[i], 14, feed_empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layers), cmocka_unit_test(omitted),
                                        cmocka_unit_test(inside_networks), cmocka_unit_test(empty_tensors) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
