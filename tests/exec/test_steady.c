/* A run at known sizes allocates nothing and takes no lock: models with several regions on several providers,
 * alternating sizes, one thread and two, bodies. A decoder that reads one more token in each run does not allocate
 * either. Functions of the same names in this program count the calls; all libraries of the process use them. */
#include "graph_script.h"
#include "level.h"
#include "session/session.h"
#include "counting.h"
#include "../cpu/loops.h"

static void run_at(struct rig *rig, inlay_value *input)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_set_input(rig->context, 0, input, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    rig_run(rig);
}

static void turns(struct rig *rig, inlay_value *three, inlay_value *five, int count)
{
    for (int k = 0; k < count; k++) {
        run_at(rig, three);
        run_at(rig, three);
        run_at(rig, five);
    }
}

static inlay_value *rows(int64_t count, int64_t width)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ count, width }, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        ((float *)inlay_value_data(value))[i] = (float)(i % 17) / 16.0f - 0.5f;
    return value;
}

static bool lists_openblas(const char *const *options)
{
    for (; *options != NULL; options++)
        if (strstr(*options, "openblas") != NULL)
            return true;
    return false;
}

/* The script has one input [N, 64]; runs of 3 and of 5 rows alternate. cpu: number of threads of provider cpu, 0 = cpu
 * is not used. oneDNN's primitives allocate a map of their arguments in each run (built-in kernels, which CPUs with
 * AVX-512 use, allocate nothing), and regions for several threads take a lock. Without AVX2 its matrix multiplications
 * take locks as well. OpenBLAS allocates a buffer under a lock for each matrix multiplication with some kernels,
 * depending on the CPU and OPENBLAS_CORETYPE. */
static void check(const char *what, const char *script, const char *const *options, uint32_t least_steps, int cpu)
{
    struct wire wire = { 0 };
    inlay_value *three = rows(3, 64), *five = rows(5, 64);
    const bool products = strstr(script, "MatMul") != NULL;
    const bool may_lock = cpu > 1 || (products && lists_openblas(options)) || (products && cpu > 0 && level_is_low());
    unsigned allocated, locked;
    struct rig rig;

    script_model(&wire, 17, script);
    if (!rig_open_if_built(&wire, options, what, &rig))
        goto done;
    turns(&rig, three, five, 3);
    assert_true(rig.session->main->step_count >= least_steps);
    atomic_store(&allocations, 0);
    atomic_store(&locks, 0);
    atomic_store(&counting, true);
    turns(&rig, three, five, 10);
    atomic_store(&counting, false);
    allocated = atomic_load(&allocations);
    locked = atomic_load(&locks);
    if ((allocated > 0 && cpu == 0) || (locked > 0 && !may_lock))
        fail_msg("%s: %u allocations, %u locks in 30 runs", what, allocated, locked);
done:
    rig_close(&rig);
    inlay_value_unref(three);
    inlay_value_unref(five);
}

/* Matrix multiplications, chains of pointwise operators, a Gather, Softmax. */
#define NET                                                                                                            \
    "x : N,64\nw = [64,64]\nv = [64,32]\nc = [64]\na = MatMul(x, w)\nb = Add(a, c)\nd = Relu(b)\ne = Softmax(d)\n"     \
    "i = i[2] 1,0\nf = Gather(e, i) axis=1\ng = MatMul(e, v)\nh = Tanh(g)\nl = CumSum(h, k)\nm = Exp(l)\n-> m, f"
#define NET_INDEX "k = i[] 1\n"

static void several_regions(void **state)
{
    static const char *const threads[] = { "1", "2" };

    (void)state;
    for (int thread = 0; thread < 2; thread++) {
        check("reference", NET_INDEX NET,
              (const char *const[]){ "providers", "reference", "intra_threads", threads[thread], NULL }, 4, 0);
        check("concurrent branches", NET_INDEX NET,
              (const char *const[]){ "providers", "reference", "intra_threads", threads[thread], "inter_threads", "2",
                                     NULL },
              4, 0);
        check("openblas, reference", NET_INDEX NET,
              (const char *const[]){ "providers", "openblas,reference", "intra_threads", threads[thread], NULL }, 4, 0);
        check("cpu, reference", NET_INDEX NET,
              (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                     threads[thread], NULL },
              3, thread + 1);
        check("providers alternating", NET_INDEX NET,
              (const char *const[]){ "providers", "cpu,openblas,reference", "pin", "op:MatMul=openblas", "pin",
                                     "op:Softmax=cpu", "pin", "op:Relu=reference", "intra_threads", threads[thread],
                                     NULL },
              5, thread + 1);
    }
}

static void bodies(void **state)
{
    (void)state;
    check("a branch",
          "x : N,64\nz = [] 100\ns = ReduceSum(x) keepdims=0\nt = Greater(z, s)\n"
          "y = If(t) then:Neg(x) else:Relu(x)\nu = Exp(y)\n-> u",
          (const char *const[]){ "providers", "reference", NULL }, 3, 0);
}

enum { HEADS = 4, SHARED = 2, SIZE = 16, WARM = 40, TOKENS = 60, ROOM = 128 };

static void bind_floats(struct rig *rig, uint32_t input, uint32_t rank, const int64_t *dims, bool ones)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, rank, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        ((float *)inlay_value_data(value))[i] = ones ? 1 : (float)(i % 13) / 13 - 0.5f;
    rig_bind(rig, input, value);
}

#define GROUPS(q)                                                                                                      \
    "one = [] 1.0\nsum = ReduceSum(mask, axis) keepdims=0\nless = Sub(sum, one)\nl = Cast(less) to=6\n"                \
    "shape = Shape(mask)\nat = i[] 1\nlong = Gather(shape, at)\nt = Cast(long) to=6\n"                                 \
    "y, present_0, present_1 = ms.GroupQueryAttention(" q ", k, v, past_0, past_1, l, t) num_heads=4 kv_num_heads=2\n"

/* Attention with a past, and GroupQueryAttention whose lengths the reference computes from a mask; with queries from a
 * dynamically quantized matrix multiplication, and with a matrix multiplication whose sizes grow. */
static const char *const decoders[] = {
    "q : B,4,S,16\nn : B,2,S,16\nu : B,2,S,16\npast_0 : B,2,P,16\npast_1 : B,2,P,16\nm : S,T\n"
    "present_0 = Concat(past_0, n) axis=2\npresent_1 = Concat(past_1, u) axis=2\n"
    "y = Attention(q, present_0, present_1, m)\n-> y, present_0, present_1",
    "q : B,S,64\nk : B,S,32\nv : B,S,32\npast_0 : B,2,P,16\npast_1 : B,2,P,16\nmask : B,T\naxis = i[1] 1\n" GROUPS(
        "q") "-> y, present_0, present_1",
    "q : B,S,64\nk : B,S,32\nv : B,S,32\npast_0 : B,2,P,16\npast_1 : B,2,P,16\nmask : B,T\naxis = i[1] 1\n"
    "w = [64,64]\nws = [] 0.01\nw8 = QuantizeLinear(w, ws)\nx8, xs, xz = DynamicQuantizeLinear(q)\n"
    "i = MatMulInteger(x8, w8, xz)\nf = Cast(i) to=1\nr = Mul(f, xs)\nwide = Unsqueeze(mask, axis)\n"
    "turned = Transpose(wide) perm=0,2,1\nseen = MatMul(wide, turned)\n" GROUPS("r") "-> y, present_0, present_1, seen",
};

static void read_token(struct rig *rig, bool by_heads, int64_t t)
{
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t heads = i == 0 ? HEADS : SHARED;

        if (by_heads)
            bind_floats(rig, i, 4, (const int64_t[]){ 1, heads, 1, SIZE }, false);
        else
            bind_floats(rig, i, 3, (const int64_t[]){ 1, 1, heads * SIZE }, false);
    }
    bind_floats(rig, 5, 2, (const int64_t[]){ 1, t + 1 }, true);
    atomic_store(&counting, t >= WARM);
    rig_run(rig);
    atomic_store(&counting, false);
}

/* One more token in each run, so that sizes never repeat. After the limit of plans is reached, each new plan reuses
 * the memory of a removed one, and states are appended in place. */
static void tokens(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof decoders / sizeof *decoders; k++) {
        const char *options[] = { "providers", "cpu,reference",       "policy", "priority", "intra_threads", "1",
                                  "pin",       "op:MatMul=reference", NULL };
        inlay_state_info info = { .struct_size = sizeof info };
        inlay_diag diag = INLAY_DIAG_INIT;
        struct wire wire = { 0 };
        struct rig rig;

        if (strstr(decoders[k], "MatMul(") == NULL)
            options[6] = NULL;
        script_model(&wire, 23, decoders[k]);
        if (!rig_open_if_built(&wire, options, decoders[k], &rig))
            continue;
        assert_int_equal(inlay_session_state(rig.session, 0, &info), INLAY_OK);
        assert_int_equal(inlay_context_keep_states(rig.context, ROOM, &diag), INLAY_OK);
        atomic_store(&allocations, 0);
        for (int64_t t = 0; t < WARM + TOKENS; t++)
            read_token(&rig, k == 0, t);
        assert_int_equal(inlay_context_state_length(rig.context), WARM + TOKENS);
        /* Memory of growing values grows rarely, by a quarter. That of a plan grows rarely, too, to twice its size,
         * once for each of the plans that are kept: it holds the elements of integer tensors that shape inference
         * knows, here the positions, one for each token. Below AVX2 the provider cpu declines int8 matrix
         * multiplications once their sizes are known, and the host stores each refusal. */
        if (info.in_place == 1 && !is_below_avx2() && atomic_load(&allocations) > TOKENS / 8)
            fail_msg("decoder %zu: %u allocations in %d tokens", k, atomic_load(&allocations), TOKENS);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(several_regions), cmocka_unit_test(bodies),
                                        cmocka_unit_test(tokens) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
