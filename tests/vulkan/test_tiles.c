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

/* Keeps times by which every product of a kind takes one tile. */
static void keep_one(const char *devices, const gpu_device *device, vulkan_tile_kind kind, const vulkan_tiling *best)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    vulkan_tile_time times[VULKAN_MAX_TILES];
    const uint32_t count = vulkan_list_tiles(&device->facts, kind, list);

    for (uint32_t i = 0; i < count; i++)
        times[i] = (vulkan_tile_time){ list[i] == best ? 1 : 1000, list[i] == best ? 1 : 1000 };
    vulkan_save_tile_times(devices, device, kind, times);
}

/* The next session takes a tile whose time is the shortest. */
static void plant(const char *dir, const char *devices, const gpu_device *device, uint32_t best)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    char expected[64];

    assert_in_range(best, 0, vulkan_list_tiles(&device->facts, VULKAN_TILES_BYTES, list) - 1);
    keep_one(devices, device, VULKAN_TILES_BYTES, list[best]);
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
                keep_one(devices, device, kind, list[k]);
                bytes = outputs_of(dir, products[p].script, one, ROOM);
                expect_logged(", two chunks ahead", false);
                keep_one(devices, device, kind, list[i]);
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

/* Measured times: one tile takes `few` a chunk, and more than few / many of them take longer in proportion. */
static void choice_follows_the_times(void **state)
{
    enum { LISTED = 6, AHEAD = 3 }; /* the last tiles load two chunks ahead */
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
        vulkan_tile_time times[LISTED + AHEAD];
        double time;

        assert_int_equal(vulkan_list_tiles(&facts, VULKAN_TILES_FLOAT, list), LISTED + AHEAD);
        memcpy(times, rows[i].times, sizeof rows[i].times);
        for (uint32_t k = LISTED; k < LISTED + AHEAD; k++)
            times[k] = (vulkan_tile_time){ 2000, 2000 };
        if (vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, times, &product, &time) != list[rows[i].best])
            fail_msg("product %zu", i);
        for (uint32_t k = LISTED; k < LISTED + AHEAD; k++)
            times[k] = (vulkan_tile_time){ 0.1f, 0.01f };
        assert_int_equal(vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, times, &product, &time)->ahead, 2);
        assert_int_equal(vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, NULL, &product, &time)->ahead, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(choice_follows_the_times), cmocka_unit_test(times_are_kept),
                                        cmocka_unit_test(two_chunks_ahead_give_the_same_bits) };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
