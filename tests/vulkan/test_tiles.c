/* Times of tiles: measured once and kept, replaced if the file is damaged, and what the choice follows. Tiles that load
 * two chunks ahead give the same bits as those that load one. */
#include "vulkan/region.h"
#include "vulkan_case.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Products of bytes run in tiles on every device. */
static const char script[] = "f : 9,64\nh = [] 90\ns = Mul(f, h)\nx = Cast(s) to=2\ng : 64,96\nt = Mul(g, h)\n"
                             "w = Cast(t) to=3\ny = MatMulInteger(x, w)\n-> y";

static char logged[1 << 16];

static void keep_line(void *user, uint32_t level, const char *text)
{
    (void)user, (void)level;
    vulkan_case_keep(logged, text, strlen(text));
    vulkan_case_keep(logged, "\n", 1);
}

/* Runs the model in a session of its own, whose lines are in `logged`. */
static void run_session(const char *dir, const char *tiles, const char *fault)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options =
        rig_options((const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "vulkan.tiles", tiles,
                                           "vulkan.fault", fault, "cache_dir", dir, NULL },
                    &diag);
    struct rig rig = { 0 }, reference = vulkan_case_open(script, 13, NULL, false);

    logged[0] = '\0';
    script_model(&wire, 13, script);
    rig.model = wire;
    inlay_options_set_log(options, keep_line, NULL);
    if (inlay_session_create_from_bytes(wire.bytes, wire.count, options, &rig.session, &diag) != INLAY_OK ||
        inlay_context_create(rig.session, &rig.context, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    script_feed(&rig, 1);
    script_feed(&reference, 1);
    rig_run(&rig);
    rig_run(&reference);
    vulkan_case_compare(&rig, &reference, script);
    rig_close(&rig);
    rig_close(&reference);
}

static void expect_logged(const char *text, bool wanted)
{
    if ((strstr(logged, text) != NULL) != wanted)
        fail_msg("the log %s '%s':\n%s", wanted ? "lacks" : "has", text, logged);
}

/* Keeps times by which every product of a kind takes one tile, and k is divided into as many parts as are allowed, or
 * into none. */
static void keep_one(const char *devices, const gpu_device *device, vulkan_tile_kind kind, const vulkan_tiling *best,
                     bool divided)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    vulkan_tile_time times[VULKAN_MAX_TILES + 1];
    const uint32_t count = vulkan_list_tiles(&device->facts, kind, list);

    for (uint32_t i = 0; i < count; i++)
        times[i] = (vulkan_tile_time){ list[i] == best ? 1 : 1000, list[i] != best ? 1000 : divided ? 1e-4f : 1 };
    times[count] = (vulkan_tile_time){ divided ? 1e-6f : 1e9f, 1e-9f };
    vulkan_save_tile_times(devices, device, kind, times);
}

/* The next session takes a tile whose time is the shortest. */
static void plant(const char *dir, const char *devices, const gpu_device *device, uint32_t best)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    char expected[64];

    assert_in_range(best, 0, vulkan_list_tiles(&device->facts, VULKAN_TILES_BYTES, list) - 1);
    keep_one(devices, device, VULKAN_TILES_BYTES, list[best], false);
    (void)snprintf(expected, sizeof expected, "9 x 64 x 96 in tiles of %lld x %lld\n",
                   (long long)vulkan_tile_height(&device->facts, VULKAN_TILES_BYTES, list[best]),
                   (long long)vulkan_tile_width(&device->facts, VULKAN_TILES_BYTES, list[best]));
    run_session(dir, "measure", "");
    expect_logged(expected, true);
    expect_logged("measured", false);
}

static void times_are_kept(void **state)
{
    const gpu_options options = { .device = "auto", .cache_dir = "" };
    char dir[] = "/tmp/inlay-tiles-XXXXXX", devices[64], name[64], path[160], line[64];
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_device *device = NULL;
    struct stat first, second;

    (void)state;
    vulkan_case_require_device();
    vulkan_case_release_device();
    assert_non_null(mkdtemp(dir));
    assert_int_equal(gpu_open(&options, &device, &diag), INLAY_OK);
    (void)snprintf(devices, sizeof devices, "%s/devices", dir);
    gpu_cache_file_name(device, vulkan_tile_kind_name(VULKAN_TILES_BYTES), name);
    (void)snprintf(path, sizeof path, "%s/%s", devices, name);

    run_session(dir, "estimate", "");
    expect_logged("measured", false);
    expect_logged("in tiles of", true);
    assert_int_not_equal(stat(path, &first), 0);
    run_session(dir, "measure", "");
    expect_logged("tiles-bytes measured in", true);
    assert_int_equal(stat(path, &first), 0);
    run_session(dir, "measure", "");
    expect_logged("measured", false);
    assert_int_equal(stat(path, &second), 0);
    assert_true(first.st_ino == second.st_ino && first.st_size == second.st_size);

    assert_int_equal(truncate(path, first.st_size - 3), 0);
    run_session(dir, "measure", "");
    expect_logged("is damaged, or of another driver or version; the tiles are measured again", true);
    expect_logged("tiles-bytes measured in", true);
    assert_int_equal(stat(path, &second), 0);
    assert_int_equal(first.st_size, second.st_size);

    for (uint32_t best = 0; best < 3; best++)
        plant(dir, devices, device, best);
    if (device->facts.byte_matrix_size > 0) { /* otherwise a wrong shader would fall back to tiles unnoticed */
        run_session(dir, "estimate", "gpu:0");
        expect_logged(" of matrices\n", true);
    }
    gpu_close(device);
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
}

/* Products of one kind of tiles: k of less than a chunk, of several with a rest, and several taps with padding. */
static const struct {
    vulkan_tile_kind kind;
    const char *script;
} products[] = {
    { VULKAN_TILES_FLOAT, "f : 1,40,5,6\nk = [24,40,3,3]\nc = Conv(f, k) pads=1,1,1,1\n-> c" },
    { VULKAN_TILES_BYTES, "f : 9,700\nh = [] 90\ns = Mul(f, h)\nx = Cast(s) to=2\ng : 700,96\nt = Mul(g, h)\n"
                          "w = Cast(t) to=3\ny = MatMulInteger(x, w)\n-> y" },
    { VULKAN_TILES_HALF, "f : 40,600\nx = Cast(f) to=10\ng : 600,70\nw = Cast(g) to=10\nm = MatMul(x, w)\n"
                         "y = Cast(m) to=1\n-> y" },
    { VULKAN_TILES_BYTE_MATRICES,
      "f : 40,700\nh = [] 90\ns = Mul(f, h)\nx = Cast(s) to=2\ng : 700,96\nt = Mul(g, h)\nw = Cast(t) to=3\n"
      "q = uint8[] 7\ny = MatMulInteger(x, w, q)\n-> y" },
};

/* The bytes of all outputs of a session whose products of a kind take this tile. */
static size_t outputs_of(const char *dir, const char *script_text, uint8_t *out, size_t room)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options =
        rig_options((const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "vulkan.tiles",
                                           "measure", "vulkan.fault", "gpu:0", "cache_dir", dir, NULL },
                    &diag);
    struct rig rig = { 0 };
    size_t used = 0;

    logged[0] = '\0';
    script_model(&rig.model, 13, script_text);
    inlay_options_set_log(options, keep_line, NULL);
    if (inlay_session_create_from_bytes(rig.model.bytes, rig.model.count, options, &rig.session, &diag) != INLAY_OK ||
        inlay_context_create(rig.session, &rig.context, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    script_feed(&rig, 1);
    rig_run(&rig);
    for (uint32_t i = 0; i < inlay_session_output_count(rig.session); i++) {
        const inlay_value *value = inlay_context_output(rig.context, i);

        assert_true(used + inlay_value_bytes(value) <= room);
        memcpy(out + used, inlay_value_data(value), inlay_value_bytes(value));
        used += inlay_value_bytes(value);
    }
    rig_close(&rig);
    return used;
}

static bool are_twins(const vulkan_tiling *tile, const vulkan_tiling *other)
{
    return tile->rows == other->rows && tile->columns == other->columns && tile->side_rows == other->side_rows &&
           tile->side_columns == other->side_columns && tile->slices == other->slices && tile->steps == other->steps &&
           tile->ahead != other->ahead;
}

static void two_chunks_ahead_give_the_same_bits(void **state)
{
    enum { ROOM = 1 << 16 };
    const gpu_options options = { .device = "auto", .cache_dir = "", .fault = GPU_FAULT_AS_GPU };
    char dir[] = "/tmp/inlay-tiles-XXXXXX", devices[64], line[64];
    uint8_t *one = malloc(ROOM), *two = malloc(ROOM);
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_device *device = NULL;
    uint32_t pairs = 0;

    (void)state;
    assert_true(one != NULL && two != NULL);
    vulkan_case_require_device();
    vulkan_case_release_device();
    assert_non_null(mkdtemp(dir));
    (void)snprintf(devices, sizeof devices, "%s/devices", dir);
    (void)outputs_of(dir, "x : 4\ny = Abs(x)\n-> y", one, ROOM); /* makes the folder */
    assert_int_equal(gpu_open(&options, &device, &diag), INLAY_OK);
    for (size_t p = 0; p < sizeof products / sizeof products[0]; p++) {
        const vulkan_tile_kind kind = products[p].kind;
        const vulkan_tiling *list[VULKAN_MAX_TILES];
        const bool missing = vulkan_are_matrices(kind) && vulkan_matrix_size(&device->facts, kind) == 0;
        const uint32_t count = missing ? 0 : vulkan_list_tiles(&device->facts, kind, list);

        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < i; k++) {
                size_t bytes;

                if (!are_twins(list[i], list[k]) || (device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU &&
                                                     vulkan_tile_height(&device->facts, kind, list[i]) > 32))
                    continue; /* CPU drivers compile large tiles slowly */
                keep_one(devices, device, kind, list[k], false);
                bytes = outputs_of(dir, products[p].script, one, ROOM);
                expect_logged(", two chunks ahead", false);
                keep_one(devices, device, kind, list[i], false);
                assert_int_equal(outputs_of(dir, products[p].script, two, ROOM), bytes);
                expect_logged(", two chunks ahead", true);
                assert_memory_equal(one, two, bytes);
                pairs++;
            }
    }
    assert_true(pairs >= 4);
    gpu_close(device);
    free(one);
    free(two);
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
}

/* Products whose k may be divided, with epilogues: a bias for each column, a residual, a transposed result, batches. */
static const struct {
    vulkan_tile_kind kind;
    float most;  /* difference, relative to the largest element */
    bool panels; /* B is a constant matrix: there are tiles that are not shared */
    const char *script;
} divisible[] = {
    { VULKAN_TILES_FLOAT, 2e-6f, false,
      "f : 1,264,5,6\nk = [24,264,3,3]\nb = [24]\nc = Conv(f, k, b) pads=1,1,1,1\n"
      "y = Relu(c)\n-> y" },
    { VULKAN_TILES_FLOAT, 2e-6f, true,
      "f : 9,640\nw = [640,70]\nb = [70]\nr : 9,70\nm = MatMul(f, w)\na = Add(m, b)\n"
      "y = Add(a, r)\n-> y" },
    { VULKAN_TILES_FLOAT, 2e-6f, true,
      "f : 1,616\nw = [616,70]\nb = [70]\nm = MatMul(f, w)\na = Add(m, b)\ny = Tanh(a)\n"
      "-> y" },
    { VULKAN_TILES_FLOAT, 2e-6f, false,
      "f : 2,3,9,320\ng : 2,3,20,320\nt = Transpose(g) perm=0,1,3,2\nm = MatMul(f, t)\n"
      "u = Neg(m)\ny = Transpose(u) perm=0,2,1,3\n-> y" },
    { VULKAN_TILES_FLOAT, 2e-3f, true,
      "f : 1,616\nx = Cast(f) to=10\ng = [616,70]\nw = Cast(g) to=10\nm = MatMul(x, w)\n"
      "y = Cast(m) to=1\n-> y" },
    { VULKAN_TILES_HALF, 2e-3f, true,
      "f : 40,640\nx = Cast(f) to=10\ng = [640,70]\nw = Cast(g) to=10\nh = [70]\n"
      "b = Cast(h) to=10\nm = MatMul(x, w)\na = Add(m, b)\ny = Cast(a) to=1\n-> y" },
    /* a normalisation adds the parts of its first or second input */
    { VULKAN_TILES_FLOAT, 1e-5f, true,
      "f : 9,640\nw = [640,70]\nr : 9,70\ns = [70]\nb = [70]\nc = [70]\nm = MatMul(f, w)\n"
      "y, _, _, u = ms.SkipLayerNormalization(m, r, s, b, c)\nz = Neg(u)\n-> y, z" },
    { VULKAN_TILES_FLOAT, 4e-3f, true,
      "f : 3,640\nx = Cast(f) to=10\nh = [640,70]\nw = Cast(h) to=10\ng : 3,70\nr = Cast(g) to=10\nd = [70]\n"
      "s = Cast(d) to=10\nm = MatMul(x, w)\nn = ms.SkipSimplifiedLayerNormalization(r, m, s)\ny = Cast(n) to=1\n-> y" },
};

/* Fails if the outputs of the script with this tile are not those with another tile and an undivided k. */
static void expect_near(const char *dir, const char *devices, const gpu_device *device, size_t product,
                        const vulkan_tiling *tile, bool divided, const float *want, size_t bytes)
{
    static float got[1 << 14];
    float peak = 0;

    keep_one(devices, device, divisible[product].kind, tile, divided);
    assert_int_equal(outputs_of(dir, divisible[product].script, (uint8_t *)got, sizeof got), bytes);
    expect_logged(" parts of k\n", divided);
    expect_logged(": reduce for ", divided && strstr(divisible[product].script, "Normalization") == NULL);
    for (size_t i = 0; i < bytes / sizeof *want; i++)
        peak = fmaxf(peak, fabsf(want[i]));
    for (size_t i = 0; i < bytes / sizeof *want; i++)
        if (!(fabsf(got[i] - want[i]) <= divisible[product].most * peak))
            fail_msg("element %zu is %g, not %g, in\n%s%s", i, (double)got[i], (double)want[i],
                     divisible[product].script, logged);
}

static void divided_products_give_the_same_sums(void **state)
{
    const gpu_options options = { .device = "auto", .cache_dir = "", .fault = GPU_FAULT_AS_GPU };
    static float want[1 << 14];
    char dir[] = "/tmp/inlay-tiles-XXXXXX", devices[64], line[64];
    inlay_diag diag = INLAY_DIAG_INIT;
    gpu_device *device = NULL;
    uint32_t unshared = 0;

    (void)state;
    vulkan_case_require_device();
    vulkan_case_release_device();
    assert_non_null(mkdtemp(dir));
    (void)snprintf(devices, sizeof devices, "%s/devices", dir);
    (void)outputs_of(dir, "x : 4\ny = Abs(x)\n-> y", (uint8_t *)want, sizeof want); /* makes the folder */
    assert_int_equal(gpu_open(&options, &device, &diag), INLAY_OK);
    for (size_t p = 0; p < sizeof divisible / sizeof divisible[0]; p++) {
        const vulkan_tile_kind kind = divisible[p].kind;
        const vulkan_tiling *list[VULKAN_MAX_TILES], *plain = NULL;
        const bool missing = vulkan_are_matrices(kind) && vulkan_matrix_size(&device->facts, kind) == 0;
        const uint32_t count = missing ? 0 : vulkan_list_tiles(&device->facts, kind, list);
        size_t bytes = 0;

        for (uint32_t i = 0; i < count; i++) {
            if (list[i]->ahead > 1 || (list[i]->ahead == 0 && !divisible[p].panels) ||
                (device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU &&
                 vulkan_tile_height(&device->facts, kind, list[i]) > 32))
                continue; /* CPU drivers compile large tiles slowly */
            if (plain == NULL) {
                plain = list[i];
                keep_one(devices, device, kind, plain, false);
                bytes = outputs_of(dir, divisible[p].script, (uint8_t *)want, sizeof want);
                expect_logged(" parts of k\n", false);
            }
            expect_near(dir, devices, device, p, list[i], true, want, bytes);
            if (list[i]->ahead == 0) {
                expect_near(dir, devices, device, p, list[i], false, want, bytes);
                unshared += strstr(logged, ", not shared\n") != NULL;
            }
        }
    }
    assert_int_equal(unshared, 5);
    gpu_close(device);
    (void)snprintf(line, sizeof line, "rm -r %s", dir);
    assert_int_equal(system(line), 0);
}

/* Measured times: one tile takes `few` a chunk, and more than few / many of them take longer in proportion. */
static void choice_follows_the_times(void **state)
{
    enum {
        LISTED = 6,
        AHEAD = 3,
        TILES = LISTED + AHEAD + 1
    }; /* three load two chunks ahead; the last does not share */
    static const struct {
        int64_t rows, k, n;
        vulkan_tile_time times[LISTED];
        uint32_t best;
    } rows[] = {
        /* 4096 tiles of 64 x 64 take 4096 * 16 chunks * 2 ns; 1024 of 128 x 128, 32 chunks, take 32768 * 3 */
        { 4096, 256, 4096, { { 50, 3 }, { 50, 2 }, { 1000, 100 }, { 1000, 500 }, { 1000, 500 }, { 1000, 500 } }, 0 },
        { 4096, 256, 4096, { { 50, 5 }, { 50, 2 }, { 1000, 100 }, { 1000, 500 }, { 1000, 500 }, { 1000, 500 } }, 1 },
        /* few tiles: the number of chunks counts, 32 of 8 k, 16, 8, 4, 4 and 2 */
        { 8, 256, 32, { { 50, 3 }, { 50, 2 }, { 110, 1 }, { 50, 1 }, { 60, 1 }, { 500, 1 } }, 3 },
        { 1, 256, 32, { { 50, 3 }, { 50, 2 }, { 110, 1 }, { 150, 1 }, { 150, 1 }, { 60, 1 } }, 5 },
        { 8, 2560, 32, { { 50, 3 }, { 50, 2 }, { 50, 1 }, { 300, 1 }, { 300, 1 }, { 900, 1 } }, 2 },
    };
    const gpu_facts facts = { .max_shared_bytes = 32768 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const vulkan_product product = {
            .line = rows[i].rows, .lines = 1, .k = rows[i].k, .n = rows[i].n, .taps = 1, .batch = { 1, 1, 1 }
        };
        const vulkan_tiling *list[VULKAN_MAX_TILES];
        vulkan_tile_time times[TILES + 1];
        uint32_t parts = 0;
        double time;

        assert_int_equal(vulkan_list_tiles(&facts, VULKAN_TILES_FLOAT, list), TILES);
        memcpy(times, rows[i].times, sizeof rows[i].times);
        for (uint32_t k = LISTED; k < TILES; k++)
            times[k] = (vulkan_tile_time){ 2000, 2000 };
        times[TILES] = (vulkan_tile_time){ 1e9f, 1 };
        if (vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, times, &product, &parts, &time) != list[rows[i].best])
            fail_msg("product %zu", i);
        assert_int_equal(parts, 1);
        for (uint32_t k = LISTED; k < LISTED + AHEAD; k++)
            times[k] = (vulkan_tile_time){ 0.1f, 0.01f };
        assert_int_equal(vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, times, &product, &parts, &time)->ahead, 2);
        assert_int_equal(vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, NULL, &product, &parts, &time)->ahead, 1);
    }
}

/* 128 x 3072 by 3072 x 768 in 24 tiles of 64 x 64: 192 chunks of 16 k, each 1000 ns while there are few tiles. */
static void k_is_divided_where_that_is_faster(void **state)
{
    static const struct {
        vulkan_tile_time many, sums; /* of a tile among many; of the sums of parts */
        uint32_t parts;
    } rows[] = {
        { { 1000, 1 }, { 1e6f, 1e-3f }, 1 },  /* the sums take longer than all chunks */
        { { 1000, 1 }, { 5000, 1e-9f }, 16 }, /* a sixteenth of 192 us, and 5 us */
        { { 1000, 1 }, { 5000, 0.05f }, 6 },  /* 32 us and 34.5; 8 parts take 24 + 44.3 */
        { { 1000, 45 }, { 5000, 1e-9f }, 1 }, /* 24 tiles are many: 1080 ns a chunk */
        { { 1000, 20 }, { 5000, 1e-9f }, 3 }, /* 72 tiles are many */
    };
    const gpu_facts facts = { .max_shared_bytes = 32768 };
    vulkan_product product = { .line = 128, .lines = 1, .k = 3072, .n = 768, .taps = 1, .batch = { 1, 1, 1 } };
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    const uint32_t count = vulkan_list_tiles(&facts, VULKAN_TILES_FLOAT, list);
    vulkan_tile_time times[VULKAN_MAX_TILES + 1];
    uint32_t parts;
    double time;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint32_t k = 0; k < count; k++)
            times[k] = (vulkan_tile_time){ 1e9f, 1e9f };
        times[1] = rows[i].many;
        times[count] = rows[i].sums;
        assert_ptr_equal(vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, times, &product, &parts, &time), list[1]);
        if (parts != rows[i].parts)
            fail_msg("row %zu: %u parts", i, parts);
        (void)vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, NULL, &product, &parts, &time);
        assert_int_equal(parts, 1);
    }
    times[count] = (vulkan_tile_time){ 1, 1e-9f };
    product.k = 3075; /* no part has a multiple of eight */
    (void)vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, times, &product, &parts, &time);
    assert_int_equal(parts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(choice_follows_the_times), cmocka_unit_test(times_are_kept),
                                        cmocka_unit_test(two_chunks_ahead_give_the_same_bits),
                                        cmocka_unit_test(k_is_divided_where_that_is_faster),
                                        cmocka_unit_test(divided_products_give_the_same_sums) };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
