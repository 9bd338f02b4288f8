/* Operators of decoders other than GEMM and attention, compared with the reference: RotaryEmbedding and TensorScatter,
 * with operands in the layouts of Transpose and Slice, with positions that are constants at any address,
 * inputs or omitted, and with invalid positions. */
#define COMPARE_TOLERANCE 1e-6f
#include "compare.h"
#include "session/session.h"

/* shift: bytes of a text before the graph, which moves the constants to other addresses. */
static struct rig open_on(const char *script, const char *providers, const char *threads, int shift)
{
    struct wire wire = { 0 };

    wire_text(&wire, 6, &"1234567"[7 - shift]);
    script_model(&wire, 24, script);
    return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                  threads, "level", "0", NULL });
}

static void expect_equal_at(const char *script, int shift)
{
    struct rig rig[3] = { open_on(script, "reference", "1", shift), open_on(script, "cpu,reference", "1", shift),
                          open_on(script, "cpu,reference", "2", shift) };

    for (int i = 0; i < 3; i++) {
        script_feed(&rig[i], 1);
        rig_run(&rig[i]);
        rig_run(&rig[i]);
        if (i > 0) /* the reference runs casts of positions */
            assert_true(rig[i].session->main->step_count <= 2);
    }
    for (int i = 1; i < 3; i++)
        compare_outputs(&rig[i], &rig[0], script);
    for (int i = 0; i < 3; i++)
        rig_close(&rig[i]);
}

static void expect_equal(const char *script)
{
    for (int shift = 0; shift < 8; shift++)
        expect_equal_at(script, shift);
}

static void rotations(void **state)
{
    static const char *const scripts[] = {
        "x : 2,3,4,16\nc = [32,8]\ns = [32,8]\np = i[2,4] 0,1,2,3,7,8,9,31\ny = RotaryEmbedding(x, c, s, p)\n-> y",
        "x : 2,3,4,16\nc = [32,8]\ns = [32,8]\np = i[2,4] 0,1,2,3,7,8,9,31\n"
        "y = RotaryEmbedding(x, c, s, p) interleaved=1\n-> y",
        "x : 2,3,4,16\nc = [9,3]\ns = [9,3]\np = i[2,4] 0,1,2,3,7,8,8,0\n"
        "y = RotaryEmbedding(x, c, s, p) rotary_embedding_dim=6\n-> y",
        "x : 2,40,48\nc : 2,40,8\ns : 2,40,8\ny = RotaryEmbedding(x, c, s) num_heads=3\n-> y",
        "x : 2,4,48\nc = [9,8]\ns = [9,8]\np = i[2,4] 0,1,2,3,7,8,8,0\nh = i[4] 0,0,3,16\nr = Reshape(x, h)\n"
        "t = Transpose(r) perm=0,2,1,3\na = RotaryEmbedding(t, c, s, p)\ny = Transpose(a) perm=0,2,1,3\n-> y, a",
        "x : 1,2,5,12\nc = [9,2]\ns = [9,2]\np = i[1,5] 4,3,2,1,0\nf = i[1] 3\nl = i[1] 11\nd = i[1] 3\n"
        "t = Slice(x, f, l, d)\ny = RotaryEmbedding(t, c, s, p) rotary_embedding_dim=4\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        expect_equal(scripts[i]);
}

static void rows_of_caches(void **state)
{
    static const char *const scripts[] = {
        "x : 2,3,9,8\nu : 2,3,2,8\np = i[2] 7,0\ny = TensorScatter(x, u, p) axis=2\n-> y",
        "x : 2,3,9,8\nu : 2,3,2,8\ny = TensorScatter(x, u)\n-> y",
        /* the cache is an intermediate value, or has another reader */
        "x : 2,3,9,8\nu : 2,2,3,8\np = i[2] 3,6\nr = Relu(x)\nt = Transpose(u) perm=0,2,1,3\n"
        "y = TensorScatter(r, t, p) axis=-2\nz = Mul(y, y)\n-> z",
        "x : 2,3,9,8\nu : 2,2,3,8\np = i[2] 3,6\nr = Relu(x)\nt = Transpose(u) perm=0,2,1,3\n"
        "y = TensorScatter(r, t, p) axis=-2\nz = Mul(y, r)\n-> z, y",
        "x : 2,2,4,8\nn : 2,2,1,8\np = i[2] 4,2\nc = Concat(x, n) axis=2\ny = TensorScatter(c, n, p)\n-> y, c",
        "x : 1,9,2,8\nu : 1,2,9,8\np = i[1] 0\nt = Transpose(x) perm=0,2,1,3\ny = TensorScatter(t, u, p)\n-> y",
    };

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        expect_equal(scripts[i]);
}

/* Invalid positions are an error of the run with a message; the next run succeeds. */
static void invalid_positions(void **state)
{
    static const struct {
        const char *script, *says;
        float good, bad;
    } rows[] = {
        { "x : 1,2,1,8\nf : 1,1\nc = [9,4]\ns = [9,4]\np = Cast(f) to=7\ny = RotaryEmbedding(x, c, s, p)\n-> y",
          "a position is outside the caches", 8, 9 },
        { "x : 1,2,1,8\nf : 1,1\nc = [9,4]\ns = [9,4]\np = Cast(f) to=7\ny = RotaryEmbedding(x, c, s, p)\n-> y",
          "a position is outside the caches", 0, -1 },
        { "x : 1,2,4,8\nf : 1\nu = [1,2,2,8]\np = Cast(f) to=7\ny = TensorScatter(x, u, p)\n-> y",
          "write_indices are outside the cache", 2, 3 },
        { "x : 1,2,4,8\nf : 1\nu = [1,2,2,8]\np = Cast(f) to=7\ny = TensorScatter(x, u, p)\n-> y",
          "write_indices are outside the cache", 0, -1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig rig = open_on(rows[i].script, "cpu,reference", "1", 0);

        script_feed(&rig, 1);
        for (int turn = 0; turn < 4; turn++) {
            const float at = turn % 2 == 1 ? rows[i].bad : rows[i].good;
            inlay_diag diag = INLAY_DIAG_INIT;
            inlay_status status;

            rig_floats(&rig, 1, strstr(rows[i].script, "f : 1,1") != NULL ? "1,1" : "1", &at);
            status = inlay_context_run(rig.context, NULL, &diag);
            assert_int_equal(status, turn % 2 == 1 ? INLAY_INVALID_ARGUMENT : INLAY_OK);
            if (turn % 2 == 1 && strstr(diag.text, rows[i].says) == NULL)
                fail_msg("%s", diag.text);
        }
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rotations), cmocka_unit_test(rows_of_caches),
                                        cmocka_unit_test(invalid_positions) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
