/* LSTM, GRU and RNN as steps of regions, compared with the reference: every direction, layout, omitted inputs and
 * outputs, constant and computed weights, ops before and after them. */
#include "compare.h"

/* Weights of an LSTM, a GRU and an RNN with 5 inputs and 7 states in `d` directions. */
#define LSTM(d) "w = [" d ",28,5]\nr = [" d ",28,7]\nb = [" d ",56]\np = [" d ",21]\n"
#define GRU(d) "w = [" d ",21,5]\nr = [" d ",21,7]\nb = [" d ",42]\n"
#define RNN(d) "w = [" d ",7,5]\nr = [" d ",7,7]\nb = [" d ",14]\n"
/* Two of three sequences end early, N is 3; the int32 lengths are a Cast of a constant. */
#define LENGTHS "li = i[3] 2,3,1\nl = Cast(li) to=6\n"

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

typedef struct hidden_layer {
    int64_t steps, batch;
    bool by_sample; /* layout=1 */
    int32_t lengths[9];
} hidden_layer;

/* Fills X with random floats; behind the lengths with zeros, or, if odd, with special values. */
static void hidden_input(const hidden_layer *layer, bool odd, uint64_t seed, float *to)
{
    static const float special[] = { NAN, INFINITY, -INFINITY, 1e38f, -1e38f };

    for (int64_t i = 0; i < layer->steps * layer->batch * 5; i++) {
        const int64_t row = i / 5, step = layer->by_sample ? row % layer->steps : row / layer->batch,
                      sample = layer->by_sample ? row / layer->steps : row % layer->batch;
        const float x = random_signed(&seed), other = special[random_below(&seed, 5)];

        to[i] = step < layer->lengths[sample] ? x : odd ? other : 0;
    }
}

static void hidden_run(const hidden_layer *layer, struct rig *rig, bool odd, uint64_t seed)
{
    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;

        assert_int_equal(inlay_session_input(rig->session, i, &info), INLAY_OK);
        assert_int_equal(inlay_value_create(info.dtype, info.rank, info.dims, &value, NULL), INLAY_OK);
        if (info.dtype == INLAY_INT32)
            memcpy(inlay_value_data(value), layer->lengths, (size_t)layer->batch * sizeof(int32_t));
        else
            hidden_input(layer, odd, seed, inlay_value_data(value));
        rig_bind(rig, i, value);
    }
    rig_run(rig);
}

static void expect_hidden(uint64_t seed)
{
    static const char *const cells[] = { "LSTM", "GRU", "RNN" },
                             *const directions[] = { "forward", "reverse", "bidirectional" },
                             *const providers[] = { "cpu,reference", "reference" };
    const uint64_t name = seed;
    const uint32_t cell = (uint32_t)random_below(&seed, 3), direction = (uint32_t)random_below(&seed, 3);
    const long long gates = cell == 0 ? 4 : cell == 1 ? 3 : 1, ways = 1 + (direction == 2);
    const bool constant = random_below(&seed, 2) > 0, half = random_below(&seed, 4) == 0;
    hidden_layer layer = { .steps = 1 + (int64_t)random_below(&seed, 6),
                           .batch = 1 + (int64_t)random_below(&seed, 9),
                           .by_sample = random_below(&seed, 3) == 0 };
    const int type = half ? INLAY_FLOAT16 : INLAY_FLOAT;
    const long long steps = layer.steps, batch = layer.batch;
    char text[1024], lengths[64];
    size_t used = 0;
    struct rig rig;
    void *kept[3];

    for (int64_t b = 0; b < layer.batch; b++) {
        layer.lengths[b] = (int32_t)random_below(&seed, (uint64_t)layer.steps + 1);
        used += (size_t)snprintf(lengths + used, sizeof lengths - used, "%s%d", b == 0 ? "" : ",", layer.lengths[b]);
    }
    used = (size_t)snprintf(text, sizeof text, "x0 : %lld,%lld,5\nw0 = [%lld,%lld,5]\nr0 = [%lld,%lld,7]\n",
                            layer.by_sample ? batch : steps, layer.by_sample ? steps : batch, ways, gates * 7, ways,
                            gates * 7);
    if (constant)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "li = i[%lld] %s\nl = Cast(li) to=6\n", batch, lengths);
    else
        used += (size_t)snprintf(text + used, sizeof text - used, "l : int32 %lld\n", batch);
    (void)snprintf(text + used, sizeof text - used,
                   "x = Cast(x0) to=%d\nw = Cast(w0) to=%d\nr = Cast(r0) to=%d\n"
                   "y0, h0%s = %s(x, w, r, _, l) hidden_size=7 direction=%s layout=%d\n"
                   "y = Cast(y0) to=1\nh = Cast(h0) to=1\n%s-> y, h%s",
                   type, type, type, cell == 0 ? ", c0" : "", cells[cell], directions[direction], (int)layer.by_sample,
                   cell == 0 ? "c = Cast(c0) to=1\n" : "", cell == 0 ? ", c" : "");
    rig = script_open((const char *const[]){ "providers", providers[seed / 7 % 2], "level", seed / 3 % 2 ? "99" : "0",
                                             "intra_threads", seed % 2 ? "2" : "1", NULL },
                      14, text);
    for (int odd = 0; odd < 2; odd++) {
        hidden_run(&layer, &rig, odd > 0, seed);
        for (uint32_t i = 0; i < inlay_session_output_count(rig.session); i++) {
            const inlay_value *output = inlay_context_output(rig.context, i);
            const size_t bytes = (size_t)inlay_value_bytes(output);

            if (odd == 0) {
                kept[i] = malloc(bytes + 1);
                assert_non_null(kept[i]);
                memcpy(kept[i], inlay_value_data(output), bytes);
            } else {
                if (memcmp(kept[i], inlay_value_data(output), bytes) != 0)
                    fail_msg("case %llu: output %u depends on steps behind the lengths\n%s", (unsigned long long)name,
                             i, text);
                free(kept[i]);
            }
        }
    }
    rig_close(&rig);
}

/* What steps behind the lengths hold changes no bit of the outputs. */
static void hidden_steps(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++)
        expect_hidden(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layers), cmocka_unit_test(omitted),
                                        cmocka_unit_test(inside_networks), cmocka_unit_test(empty_tensors),
                                        cmocka_unit_test(hidden_steps) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
