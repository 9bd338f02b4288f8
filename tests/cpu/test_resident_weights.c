/* Resident memory of a mapped model file: neither runs nor cost estimates read weights again after they are packed, and
 * weights that the file has transposed are never copied. */
#include "../cache/folder.h"
#include "../cache/model.h"
#include "graph/graph.h"
#include "rig.h"
#include "session/session.h"
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

enum { PRODUCTS = 4, SIDE = 1024 };
enum form { FLOATS, HALVES, TURNED };

static void half_weights(struct wire *wire, const char *name, const int64_t *dims)
{
    static uint16_t halves[SIDE * SIDE];
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    for (int i = 0; i < SIDE * SIDE; i++)
        halves[i] = (uint16_t)(0x2800 + i * 31 % 0x400 + i % 2 * 0x8000);
    mw_tensor_head(wire, name, INLAY_FLOAT16, 2, dims);
    wire_bytes(wire, 9, halves, sizeof halves);
    wire_end(wire, mark);
}

/* Transposed weights of model_weights(). */
static void turned_weights(struct wire *wire, const char *name, const int64_t *dims, float from)
{
    static float floats[SIDE * SIDE];
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    for (int i = 0; i < SIDE * SIDE; i++)
        floats[i % SIDE * SIDE + i / SIDE] = from + (float)(i * INT64_C(7919) % 1009) / 1009;
    mw_tensor_head(wire, name, INLAY_FLOAT, 2, dims);
    wire_bytes(wire, 9, floats, sizeof floats);
    wire_end(wire, mark);
}

/* A sequence of MatMuls by constants: [?, ?, SIDE] -> [?, ?, SIDE], with weights of 4 MB each, or of half the size. */
static struct wire products(enum form form)
{
    static const int64_t dims[] = { SIDE, SIDE };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    char in[16] = "x", out[16], names[40], same[16];

    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "b,n,1024");
    for (int i = 0; i < PRODUCTS; i++) {
        const float from = -0.5f - 0.01f * (float)i;

        (void)snprintf(names, sizeof names, "w%d", i);
        (void)snprintf(out, sizeof out, "f%d", i);
        if (form == HALVES) {
            half_weights(&wire, names, dims);
            mw_node_int(&wire, "Cast", names, out, "to", INLAY_FLOAT);
        } else if (form == TURNED) {
            turned_weights(&wire, names, dims, from);
            (void)snprintf(same, sizeof same, "c%d", i);
            mw_node_int(&wire, "Cast", names, same, "to", INLAY_FLOAT);
            mw_node(&wire, "Transpose", same, out);
        } else {
            model_weights(&wire, names, 2, dims, from);
        }
        (void)snprintf(names, sizeof names, "%s,%s%d", in, form != FLOATS ? "f" : "w", i);
        (void)snprintf(out, sizeof out, "y%d", i);
        mw_node(&wire, "MatMul", names, out);
        (void)snprintf(in, sizeof in, "%s", out);
    }
    mw_value(&wire, MW_OUTPUT, out, INLAY_FLOAT, "b,n,1024");
    wire_end(&wire, mark);
    return wire;
}

/* Constants of 4 MB that are not in the file. */
static int copied(const graph_model *model)
{
    int count = 0;

    for (uint32_t value = 0; value < model->main->value_count; value++) {
        const inlay_value_info *info = &model->main->values[value].info;

        count += (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->data_bytes == SIDE * SIDE * sizeof(float) &&
                 graph_blob_owns(model, info->data);
    }
    return count;
}

/* Pages in [begin, end) that this process has mapped. */
static long mapped_pages(int pagemap, uintptr_t begin, uintptr_t end, uintptr_t page)
{
    long count = 0;

    for (uintptr_t at = begin; at < end; at += page) {
        uint64_t entry = 0;

        assert_int_equal(pread(pagemap, &entry, sizeof entry, (off_t)(at / page * sizeof entry)), sizeof entry);
        count += (entry >> 63) != 0; /* bit 63: present */
    }
    return count;
}

/* KiB of the file that are resident in this process. /proc/self/smaps would count them, too, but also walk through the
 * terabytes that AddressSanitizer reserves. */
static long resident_kib(const char *path)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    FILE *maps = fopen("/proc/self/maps", "r");
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    char line[600];
    long pages = 0;

    assert_non_null(maps);
    assert_true(pagemap >= 0);
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;

        if (strstr(line, path) != NULL && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
            pages += mapped_pages(pagemap, begin, end, page);
    }
    (void)fclose(maps);
    (void)close(pagemap);
    return pages * (long)page / 1024;
}

/* Sets y to the result. options: pairs of name and value; NULL: none. */
static void run_twice(enum form form, const char *const *options, int copies, float *y)
{
    const long whole = (long)PRODUCTS * SIDE * SIDE * (form == HALVES ? 2 : 4) / 1024;
    struct folder folder = folder_make();
    inlay_plan_info plan = { .struct_size = sizeof plan };
    inlay_diag diag = INLAY_DIAG_INIT;
    char path[128], cache[128];
    struct wire wire = products(form);
    float x[SIDE];

    (void)snprintf(path, sizeof path, "%s/m.onnx", folder.path);
    (void)snprintf(cache, sizeof cache, "%s/cache", folder.path);
    mw_save(&wire, path);
    free(wire.bytes);
    for (int i = 0; i < SIDE; i++)
        x[i] = (float)(i % 17) / 17;
    for (int time = 0; time < 2; time++) { /* packs are made, then found in the cache */
        inlay_options *made = NULL;
        struct rig rig = { .session = NULL };

        assert_int_equal(inlay_options_create(&made, &diag), INLAY_OK);
        assert_int_equal(inlay_options_set(made, "providers", "cpu,reference", &diag), INLAY_OK);
        assert_int_equal(inlay_options_set(made, "cache_dir", cache, &diag), INLAY_OK);
        for (const char *const *option = options; option != NULL && *option != NULL; option += 2)
            assert_int_equal(inlay_options_set(made, option[0], option[1], &diag), INLAY_OK);
        if (inlay_session_create(path, made, &rig.session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        inlay_options_destroy(made);
        assert_int_equal(copied(rig.session->model), copies);
        assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
        rig_floats(&rig, 0, "1,1,1024", x);
        rig_run(&rig);
        assert_int_equal(inlay_context_plan(rig.context, &plan), INLAY_OK);
        assert_true(plan.predicted_ns > 0);
        if (resident_kib(path) > whole / 8)
            fail_msg("%ld of %ld KiB of the file are resident", resident_kib(path), whole);
        memcpy(y, inlay_value_data((inlay_value *)(uintptr_t)inlay_context_output(rig.context, 0)), SIDE * sizeof *y);
        inlay_context_destroy(rig.context);
        inlay_session_destroy(rig.session);
    }
    folder_remove(&folder);
}

static void packed_weights_stay_packed(void **state)
{
    float y[SIDE], turned[SIDE];

    (void)state;
    run_twice(FLOATS, NULL, 0, y);
    run_twice(TURNED, NULL, 0, turned);
    assert_memory_equal(turned, y, sizeof y);
    run_twice(HALVES, NULL, 0, y);
}

/* This policy ignores costs: its first provider might compute the Transposes in each run. */
static void priority_folds(void **state)
{
    float y[SIDE];

    (void)state;
    run_twice(TURNED, (const char *const[]){ "policy", "priority", NULL }, PRODUCTS, y);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(packed_weights_stay_packed),
                                        cmocka_unit_test(priority_folds) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
