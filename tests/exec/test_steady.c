/* A run at sizes that were seen before allocates nothing and takes no lock: models of several regions on several
 * providers, sizes that take turns, one thread and two, bodies. Calls are counted by functions of the same names here,
 * which all libraries of the process find first. */
#include "../passes/graph_script.h"
#include "session/session.h"
#include "counting.h"

/* ------------------------------------------------------------------ models */

static void run_at(rig *r, inlay_value *input)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_set_input(r->context, 0, input, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    rig_run(r);
}

static void turns(rig *r, inlay_value *three, inlay_value *five, int count)
{
    for (int k = 0; k < count; k++) {
        run_at(r, three);
        run_at(r, three);
        run_at(r, five);
    }
}

static inlay_value *rows(int64_t count, int64_t width)
{
    inlay_value *v = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, (const int64_t[]){ count, width }, &v, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(v); i++)
        ((float *)inlay_value_data(v))[i] = (float)(i % 17) / 16.0f - 0.5f;
    return v;
}

static bool lists_openblas(const char *const *options)
{
    for (; *options != NULL; options++)
        if (strstr(*options, "openblas") != NULL)
            return true;
    return false;
}

/* The script has one input [N, 64]; runs of 3 and of 5 rows take turns. onednn: its threads, 0 = it is not there. The
 * primitives of oneDNN make a map of their arguments each time (our own loops, which CPUs with AVX-512 have, allocate
 * nothing), and regions for several threads take turns, by a lock. OpenBLAS takes a buffer under a lock of its own for
 * each product, but with some kernels: which it has is the CPU's affair, and OPENBLAS_CORETYPE's. */
static void check(const char *what, const char *script, const char *const *options, uint32_t least_steps,
                  int onednn)
{
    wire w = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *three = rows(3, 64), *five = rows(5, 64);
    const bool blas = strstr(script, "MatMul") != NULL && lists_openblas(options);
    unsigned allocated, locked;
    rig r;

    script_model(&w, script, 17);
    if (rig_try_open(&w, options, &r, &diag) != INLAY_OK) {
        print_message("%s: %s\n", what, diag.text); /* a provider that is not built */
        goto done;
    }
    turns(&r, three, five, 3);
    assert_true(r.session->main->step_count >= least_steps);
    atomic_store(&allocations, 0);
    atomic_store(&locks, 0);
    atomic_store(&counting, true);
    turns(&r, three, five, 10);
    atomic_store(&counting, false);
    allocated = atomic_load(&allocations);
    locked = atomic_load(&locks);
    if ((allocated > 0 && onednn == 0) || (locked > 0 && onednn < 2 && !blas))
        fail_msg("%s: %u allocations, %u locks in 30 runs", what, allocated, locked);
    rig_close(&r);
done:
    inlay_value_unref(three);
    inlay_value_unref(five);
}

/* Products, chains of pointwise operators, a Gather, Softmax. */
#define NET                                                                                                       \
    "x : N,64\nw = [64,64]\nv = [64,32]\nc = [64]\na = MatMul(x, w)\nb = Add(a, c)\nd = Relu(b)\ne = Softmax(d)\n"     \
    "i = i[2] 1,0\nf = Gather(e, i) axis=1\ng = MatMul(e, v)\nh = Tanh(g)\nl = CumSum(h, k)\nm = Exp(l)\n-> m, f"
#define NET_INDEX "k = i[] 1\n"

static void several_regions(void **state)
{
    static const char *const threads[] = { "1", "2" };

    (void)state;
    for (int t = 0; t < 2; t++) {
        check("reference", NET_INDEX NET,
              (const char *const[]){ "providers", "reference", "intra_threads", threads[t], NULL }, 4, 0);
        check("openblas, reference", NET_INDEX NET,
              (const char *const[]){ "providers", "openblas,reference", "intra_threads", threads[t], NULL }, 4, 0);
        check("onednn, reference", NET_INDEX NET,
              (const char *const[]){ "providers", "onednn,reference", "policy", "priority", "intra_threads", threads[t],
                                     NULL }, 3, t + 1);
        check("all in turns", NET_INDEX NET,
              (const char *const[]){ "providers", "onednn,openblas,reference", "pin", "op:MatMul=openblas", "pin",
                                     "op:Softmax=onednn", "pin", "op:Relu=reference", "intra_threads", threads[t],
                                     NULL }, 5, t + 1);
    }
}

static void bodies(void **state)
{
    (void)state;
    check("a branch", "x : N,64\nz = [] 100\ns = ReduceSum(x) keepdims=0\nt = Greater(z, s)\n"
                      "y = If(t) then:Neg(x) else:Relu(x)\nu = Exp(y)\n-> u",
          (const char *const[]){ "providers", "reference", NULL }, 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(several_regions), cmocka_unit_test(bodies) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
