/* Times of tiles: measured once and kept, replaced if the file is damaged, and what the choice follows. */
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
    script_model(&wire, script, 13);
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

/* Gives one tile the shortest time, and keeps that: the next session takes this tile. */
static void plant(const char *dir, const char *devices, const gpu_device *device, uint32_t best)
{
    const vulkan_tiling *list[VULKAN_MAX_TILES];
    const uint32_t count = vulkan_list_tiles(&device->facts, VULKAN_TILES_BYTES, list);
    vulkan_tile_time times[VULKAN_MAX_TILES];
    char expected[64];

    for (uint32_t i = 0; i < count; i++)
        times[i] = (vulkan_tile_time){ i == best ? 1 : 1000, i == best ? 1 : 1000 };
    vulkan_save_tile_times(devices, device, VULKAN_TILES_BYTES, times);
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

/* Measured times: one tile takes `few` a chunk, and more than few / many of them take longer in proportion. */
static void choice_follows_the_times(void **state)
{
    static const struct {
        int64_t rows, k, n;
        vulkan_tile_time times[VULKAN_MAX_TILES];
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
        double time;

        assert_int_equal(vulkan_list_tiles(&facts, VULKAN_TILES_FLOAT, list), 6);
        if (vulkan_choose_tile(&facts, VULKAN_TILES_FLOAT, rows[i].times, &product, &time) != list[rows[i].best])
            fail_msg("product %zu", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(choice_follows_the_times), cmocka_unit_test(times_are_kept) };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
