/* Products of tiles: plain C equals its definition, AMX equals plain C, also if signals interrupt the products, the
 * registers are released after each, and a process that may not use AMX says why. */
#include "simd/tile_products.h"
#include "cmocka_all.h"
#include "forbid_call.h"
#include "random.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static uint64_t seed = 1;

struct operands {
    int rows, columns, quads;
    uint8_t a[TILE_ROWS * TILE_BYTES], b[TILE_ROWS * TILE_BYTES];
    uint32_t c[TILE_ROWS * TILE_ROWS];
};

static void fill(struct operands *o)
{
    o->rows = 1 + (int)random_below(&seed, TILE_ROWS);
    o->columns = 1 + (int)random_below(&seed, TILE_ROWS);
    o->quads = 1 + (int)random_below(&seed, TILE_ROWS);
    for (size_t i = 0; i < sizeof o->a; i++) {
        o->a[i] = (uint8_t)random_below(&seed, 256);
        o->b[i] = (uint8_t)random_below(&seed, 256);
    }
    for (size_t i = 0; i < TILE_ROWS * TILE_ROWS; i++)
        o->c[i] = random_below(&seed, UINT32_MAX);
}

static void integers(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        const tile_kind kind = (tile_kind)(i % TILE_BF16);
        struct operands o;
        uint32_t want[TILE_ROWS * TILE_ROWS];

        fill(&o);
        memcpy(want, o.c, sizeof want);
        for (int r = 0; r < o.rows; r++)
            for (int n = 0; n < o.columns; n++)
                for (int k = 0; k < 4 * o.quads; k++) {
                    const uint8_t x = o.a[r * 4 * o.quads + k], y = o.b[(k / 4 * o.columns + n) * 4 + k % 4];

                    want[r * o.columns + n] += (uint32_t)((kind == TILE_SU || kind == TILE_SS ? (int8_t)x : x) *
                                                          (kind == TILE_US || kind == TILE_SS ? (int8_t)y : y));
                }
        tile_products_c.product(kind, o.rows, o.columns, o.quads, o.a, o.b, o.c);
        assert_memory_equal(o.c, want, sizeof want);
    }
}

static uint16_t half_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float product_of(const uint16_t *a, const uint16_t *b, int pairs, float c)
{
    uint32_t bits;

    memcpy(&bits, &c, sizeof bits);
    tile_products_c.product(TILE_BF16, 1, 1, pairs, a, b, &bits);
    memcpy(&c, &bits, sizeof c);
    return c;
}

static void bfloat16(void **state)
{
    const uint16_t one = half_of(1), tiny = half_of(0x1p-127f), small = half_of(0x1p-100f), big = half_of(0x1p24f);

    (void)state;
    /* even and odd terms apart: 2^24 + 1 + 1 would stay 2^24 */
    assert_float_equal(product_of((uint16_t[]){ big, one, 0, one }, (uint16_t[]){ one, one, 0, one }, 2, 0),
                       0x1p24f + 2, 0);
    assert_float_equal(product_of((uint16_t[]){ big, 0, one, 0, one, 0 }, (uint16_t[]){ one, 0, one, 0, one, 0 }, 3, 0),
                       0x1p24f, 0);
    assert_float_equal(product_of((uint16_t[]){ one, one }, (uint16_t[]){ one, one }, 1, 0x1p24f), 0x1p24f + 2, 0);
    /* subnormal operands, terms and sums are 0 */
    assert_float_equal(product_of((uint16_t[]){ tiny, 0 }, (uint16_t[]){ big, 0 }, 1, 0), 0, 0);
    assert_float_equal(product_of((uint16_t[]){ small, 0 }, (uint16_t[]){ half_of(0x1p-30f), 0 }, 1, 0), 0, 0);
    assert_float_equal(product_of((uint16_t[]){ one, 0 }, (uint16_t[]){ one, 0 }, 1, 0x1p-140f), 1, 0);
    assert_float_equal(product_of((uint16_t[]){ 0, 0 }, (uint16_t[]){ 0, 0 }, 1, 0x1p-140f), 0, 0);
    /* a product does not round before it is added */
    assert_float_equal(product_of((uint16_t[]){ small, 0, small, 0 },
                                  (uint16_t[]){ half_of(0x1p-26f), 0, half_of(0x1p-26f), 0 }, 2, 0),
                       0x1p-125f, 0);
    assert_true(isinf(product_of((uint16_t[]){ half_of(0x1p127f), 0 }, (uint16_t[]){ half_of(2), 0 }, 1, 0)));
}

/* bfloat16 of a kind of numbers: 0: usual ones, 1: any exponent, 2: any bits, also infinities and NaN. */
static uint16_t random_half(int kind)
{
    const uint32_t bits = random_below(&seed, 1u << 16);

    if (kind == 2)
        return (uint16_t)bits;
    if (kind == 1)
        return (uint16_t)((bits & 0x807f) | (1 + random_below(&seed, 254)) << 7);
    return (uint16_t)((bits & 0x83ff) | 0x3c00);
}

static bool same_float(uint32_t x, uint32_t y)
{
    float p, q;

    memcpy(&p, &x, sizeof p);
    memcpy(&q, &y, sizeof q);
    return x == y || (isnan(p) && isnan(q));
}

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Each term is rounded once, with its sum: fmaf() gives the same bits, for numbers of every size. */
static void rounded_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++) {
        const int terms = 2 * (1 + (int)random_below(&seed, TILE_ROWS));
        const uint32_t start = (uint32_t)random_half(i % 3) << 16 | random_below(&seed, 1u << 16);
        uint16_t a[2 * TILE_ROWS], b[2 * TILE_ROWS];
        float part[2] = { 0, 0 }, c, got;
        uint32_t bits[2];

        for (int k = 0; k < terms; k++) {
            const uint32_t halves[2] = { (uint32_t)(a[k] = random_half(i % 3)) << 16,
                                         (uint32_t)(b[k] = random_half(i % 3)) << 16 };
            float x[2];

            memcpy(x, halves, sizeof x);
            part[k % 2] = flushed(fmaf(flushed(x[0]), flushed(x[1]), part[k % 2]));
        }
        memcpy(&c, &start, sizeof c);
        got = product_of(a, b, terms / 2, c);
        c = flushed(flushed(c) + flushed(part[0] + part[1]));
        memcpy(&bits[0], &c, sizeof c);
        memcpy(&bits[1], &got, sizeof got);
        assert_true(same_float(bits[0], bits[1]));
    }
}

#if defined(__x86_64__)
/* Products of AMX on the same random operands equal that of plain C. */
static void check_products(tile_kind kind, int numbers, int times)
{
    struct operands o;
    uint32_t c[2][TILE_ROWS * TILE_ROWS];

    fill(&o);
    for (size_t k = 0; kind == TILE_BF16 && k < sizeof o.a; k += 2) {
        memcpy(o.a + k, &(uint16_t){ random_half(numbers) }, 2);
        memcpy(o.b + k, &(uint16_t){ random_half(numbers) }, 2);
    }
    for (size_t k = 0; kind == TILE_BF16 && k < TILE_ROWS * TILE_ROWS; k++)
        o.c[k] = (uint32_t)random_half(numbers) << 16 | random_below(&seed, 1u << 16);
    memcpy(c[1], o.c, sizeof c[1]);
    tile_products_c.product(kind, o.rows, o.columns, o.quads, o.a, o.b, c[1]);
    for (int i = 0; i < times; i++) {
        memcpy(c[0], o.c, sizeof c[0]);
        tile_products_amx.product(kind, o.rows, o.columns, o.quads, o.a, o.b, c[0]);
        for (int k = 0; k < TILE_ROWS * TILE_ROWS && memcmp(c[0], c[1], sizeof c[0]) != 0; k++)
            if (kind == TILE_BF16 ? !same_float(c[0][k], c[1][k]) : c[0][k] != c[1][k])
                fail_msg("kind %d, %d x %d x %d quads: element %d is %08x with AMX and %08x in C", (int)kind, o.rows,
                         o.columns, o.quads, k, c[0][k], c[1][k]);
    }
}

enum { TILE_STATE = 3 << 17 }; /* of XSAVE: the shapes and the registers */

/* The state of tiles that differs from its initial value, so that the kernel must save it. */
static uint32_t state_in_use(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1)); /* every CPU with AMX supports this argument */
    return low & TILE_STATE;
}

static volatile sig_atomic_t signals, signals_in_products;
static volatile float value_of_signals = 1;

static void on_signal(int number, siginfo_t *info, void *context)
{
    const char *frame = (const char *)((const ucontext_t *)context)->uc_mcontext.fpregs;
    uint64_t saved;

    (void)number;
    (void)info;
    memcpy(&saved, frame + 512, sizeof saved); /* the header of XSAVE */
    signals++;
    signals_in_products += (saved & TILE_STATE) != 0;
    for (int i = 0; i < 16; i++)
        value_of_signals = value_of_signals * 0.5f + 1;
}

static void interrupt_every(suseconds_t microseconds)
{
    const struct timeval period = { .tv_usec = microseconds };

    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){ period, period }, NULL), 0);
}
#endif

static void amx(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (tile_problem() != NULL) {
        print_message("%s\n", tile_problem());
        skip();
    }
    for (int i = 0; i < 1200; i++) {
        check_products((tile_kind)(i % TILE_KINDS), i % 3, 1);
        assert_int_equal(state_in_use(), 0);
    }
#else
    skip();
#endif
}

/* Signals between the instructions of a product, whose handler computes with floats. */
static void interrupted(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct sigaction before;
    time_t end;

    if (tile_problem() != NULL)
        skip();
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    interrupt_every(1000);
    end = time(NULL) + 10;
    for (int i = 0; signals_in_products < 20 && time(NULL) < end; i++)
        check_products((tile_kind)(i % TILE_KINDS), i % 3, 1000);
    assert_true(signals_in_products > 0);
    signals = signals_in_products = 0; /* from now on there is no state that a frame of a signal would contain */
    while (signals < 20 && time(NULL) < end + 2)
        assert_int_equal(state_in_use(), 0);
    interrupt_every(0);
    assert_true(signals > 0);
    assert_int_equal(signals_in_products, 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
#else
    skip();
#endif
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void forbid_arch_prctl(void)
{
    forbid_call(SYS_arch_prctl);
}

static void set_small_signal_stack(void)
{
    static char bytes[2048];

    if (sigaltstack(&(stack_t){ .ss_sp = bytes, .ss_size = sizeof bytes }, NULL) != 0)
        _exit(2);
}

/* Does tile_problem() contain the text in a new process that calls prepare() first? */
static bool says(void (*prepare)(void), const char *text)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        prepare();
        _exit(tile_problem() != NULL && strstr(tile_problem(), text) != NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        skip();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#endif

/* The first test: a process that has the permission passes it on. */
static void refusals(void **state)
{
    (void)state;
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (cpu_has(CPU_AMX)) {
        assert_true(says(forbid_arch_prctl, "(seccomp) forbids arch_prctl"));
        assert_true(says(set_small_signal_stack, "an alternate signal stack of this process is too small"));
        return;
    }
    assert_non_null(tile_problem());
#endif
    skip(); /* also with sanitizers, whose own system calls and signal stacks these would affect */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(refusals), cmocka_unit_test(integers),
                                        cmocka_unit_test(bfloat16), cmocka_unit_test(rounded_once),
                                        cmocka_unit_test(amx),      cmocka_unit_test(interrupted) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
