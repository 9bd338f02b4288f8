/* External data: read only from the model's folder, and checked against the file's size. */
#include "cmocka_all.h"
#include "model/model.h"
#include "model_writer.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/inlay-external-XXXXXX"; /* top/secret.bin, top/model/{model.onnx,w.bin,sub/s.bin,links} */

static const char *in_top(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(in_top(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Writes a model with an initializer float w[4], whose elements are in file `location`. NULL omits an entry. */
static void write_model(const char *location, const char *offset, const char *length, struct wire *wire)
{
    wire_mark g = mw_begin(wire, 8, 17), mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, "w", INLAY_FLOAT, 1, (int64_t[]){ 4 });
    if (location != NULL)
        mw_entry(wire, 13, "location", location);
    if (offset != NULL)
        mw_entry(wire, 13, "offset", offset);
    if (length != NULL)
        mw_entry(wire, 13, "length", length);
    mw_entry(wire, 13, "checksum", "unused");
    wire_int(wire, 14, 1);
    wire_end(wire, mark);
    wire_end(wire, g);
}

static int set_up(void **state)
{
    static const float numbers[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

    (void)state;
    if (mkdtemp(top) == NULL || mkdir(in_top("model"), 0755) != 0 || mkdir(in_top("model/sub"), 0755) != 0 ||
        mkdir(in_top("model2"), 0755) != 0)
        return -1;
    write_file("secret.bin", numbers, sizeof numbers);
    write_file("model/w.bin", numbers, sizeof numbers);
    write_file("model/sub/s.bin", numbers, sizeof numbers);
    write_file("model2/w.bin", numbers, sizeof numbers);
    write_file("model/empty.bin", numbers, 0);
    return symlink("../secret.bin", in_top("model/out.bin")) | symlink("/etc", in_top("model/etc")) |
           symlink("sub/s.bin", in_top("model/in.bin")) | symlink("../model2", in_top("model/two")) |
           mkfifo(in_top("model/fifo"), 0600);
}

static int tear_down(void **state)
{
    char command[300];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static const struct {
    const char *location, *offset, *length;
    inlay_status status;
    const char *text; /* of the message; NULL: the elements begin with `first` */
    float first;
} rows[] = {
    { "w.bin", NULL, NULL, INLAY_OK, NULL, 0 },
    { "w.bin", "16", "16", INLAY_OK, NULL, 4 },
    { "w.bin", "4", NULL, INLAY_OK, NULL, 1 },
    { "sub/s.bin", "8", "16", INLAY_OK, NULL, 2 },
    { "./sub/../w.bin", NULL, NULL, INLAY_INVALID_MODEL, "would be outside the model's folder", 0 },
    { "./w.bin", NULL, NULL, INLAY_OK, NULL, 0 },
    { "in.bin", NULL, NULL, INLAY_OK, NULL, 0 },
    { "../secret.bin", NULL, NULL, INLAY_INVALID_MODEL, "external file '../secret.bin' would be outside", 0 },
    { "..", NULL, NULL, INLAY_INVALID_MODEL, "would be outside", 0 },
    { "/etc/passwd", NULL, NULL, INLAY_INVALID_MODEL, "would be outside", 0 },
    { "out.bin", NULL, NULL, INLAY_INVALID_MODEL, "is a symbolic link that leaves the folder", 0 },
    { "etc/passwd", NULL, NULL, INLAY_INVALID_MODEL, "is a symbolic link that leaves the folder", 0 },
    { "two/w.bin", NULL, NULL, INLAY_INVALID_MODEL, "is a symbolic link that leaves the folder", 0 },
    { "sub", NULL, NULL, INLAY_INVALID_MODEL, "is not a regular file", 0 },
    { "fifo", NULL, NULL, INLAY_INVALID_MODEL, "is not a regular file", 0 },
    { "gone.bin", NULL, NULL, INLAY_NOT_FOUND, "tensor 'w': external file 'gone.bin' cannot be opened", 0 },
    { "w.bin", "20", NULL, INLAY_INVALID_MODEL,
      "needs 16 bytes from byte 20 of external file 'w.bin', which has only 32", 0 },
    { "w.bin", "18446744073709551615", NULL, INLAY_INVALID_MODEL, "which has only 32", 0 },
    { "w.bin", "18446744073709551616", NULL, INLAY_INVALID_MODEL, "which is not a number", 0 },
    { "w.bin", "-4", NULL, INLAY_INVALID_MODEL, "which is not a number", 0 },
    { "w.bin", NULL, "12", INLAY_INVALID_MODEL, "has length 12, but the tensor needs 16 bytes", 0 },
    { "empty.bin", NULL, NULL, INLAY_INVALID_MODEL, "which has only 0", 0 },
    { "", NULL, NULL, INLAY_INVALID_MODEL, "external data has no location", 0 },
    { NULL, NULL, NULL, INLAY_INVALID_MODEL, "external data has no location", 0 },
};

static void locations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire wire = { 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model;

        write_model(rows[i].location, rows[i].offset, rows[i].length, &wire);
        write_file("model/model.onnx", wire.bytes, wire.count);
        if (model_load_path(in_top("model/model.onnx"), NULL, &model, &diag) != rows[i].status)
            fail_msg("row %zu: %s", i, diag.text);
        if (rows[i].text == NULL)
            assert_memory_equal(model->main->values[0].info.data, &rows[i].first, sizeof(float));
        else if (strstr(diag.text, rows[i].text) == NULL || strstr(diag.text, "tensor 'w'") == NULL)
            fail_msg("row %zu: %s", i, diag.text);
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

static void models_from_memory(void **state)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;
    model_load_options options = { .external_dir = in_top("model") };

    (void)state;
    write_model("w.bin", NULL, NULL, &wire);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "set external_dir"));
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, &options, &model, &diag), INLAY_OK);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* The mapping outlives the files and their descriptors. */
static void saved_and_loaded_again(void **state)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    model_save_options options = { .external_file = "data.bin", .external_bytes = 16 };
    graph_model *model, *again;

    (void)state;
    write_model("w.bin", "16", NULL, &wire);
    write_file("model/model.onnx", wire.bytes, wire.count);
    assert_int_equal(model_load_path(in_top("model/model.onnx"), NULL, &model, &diag), INLAY_OK);
    assert_int_equal(model_save(model, in_top("model2/model.onnx"), &options, &diag), INLAY_OK);
    assert_int_equal(model_save(model, in_top("model2/inline.onnx"), NULL, &diag), INLAY_OK);
    graph_model_destroy(model);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            model_load_path(in_top(i == 0 ? "model2/model.onnx" : "model2/inline.onnx"), NULL, &again, &diag),
            INLAY_OK);
        if (i == 0) /* overwrites the files that `again` maps */
            assert_int_equal(model_save(again, in_top("model2/model.onnx"), &options, &diag), INLAY_OK);
        assert_int_equal(unlink(in_top("model2/data.bin")), i == 0 ? 0 : -1);
        assert_memory_equal(again->main->values[0].info.data, (&(float[]){ 4, 5, 6, 7 }), 16);
        graph_model_destroy(again);
    }
    assert_int_equal(model_load_path(in_top("model2/model.onnx"), NULL, &again, &diag), INLAY_NOT_FOUND);
    wire_deinit(&wire);
}

static void save_refuses_paths(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = graph_model_create();

    (void)state;
    for (int i = 0; i < 3; i++) {
        model_save_options options = { .external_file = (const char *[]){ "a/b", "..", "" }[i] };

        assert_int_equal(model_save(model, in_top("x.onnx"), &options, &diag), INLAY_INVALID_ARGUMENT);
    }
    assert_int_equal(model_save(model, "/nowhere/x.onnx", NULL, &diag), INLAY_IO_ERROR);
    assert_non_null(strstr(diag.text, "/nowhere/x.onnx: cannot be created"));
    graph_model_destroy(model);
}

/* A tensor above 2 GiB, in the model file and in an external file. The files are sparse, so the data is never
 * touched. */
static void tensors_above_2_gib(void **state)
{
    const int64_t bytes = (INT64_C(2) << 30) + 4096;
    struct wire head = { 0 }, wire = { 0 };
    wire_mark mark, t;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;
    char length[24];
    uint8_t inner[64], outer[64];
    size_t inner_bytes = 0, outer_bytes = 0;

    (void)state;
    /* In the model file: writes the lengths of graph and tensor by hand, without the payload. */
    mw_tensor_head(&head, "w", INLAY_UINT8, 1, &bytes);
    wire_raw(&head, "\x4a", 1); /* raw_data */
    for (uint64_t n = (uint64_t)bytes; n > 0; n >>= 7)
        wire_raw(&head, &(uint8_t){ (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0)) }, 1);
    inner[inner_bytes++] = 0x2a; /* initializer */
    for (uint64_t n = head.count + (uint64_t)bytes; n > 0; n >>= 7)
        inner[inner_bytes++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    outer[outer_bytes++] = 0x08; /* ir_version 8 */
    outer[outer_bytes++] = 0x08;
    outer[outer_bytes++] = 0x3a; /* graph */
    for (uint64_t n = inner_bytes + head.count + (uint64_t)bytes; n > 0; n >>= 7)
        outer[outer_bytes++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    wire_raw(&wire, outer, outer_bytes);
    wire_raw(&wire, inner, inner_bytes);
    wire_raw(&wire, head.bytes, head.count);
    write_file("model/model.onnx", wire.bytes, wire.count);
    assert_int_equal(truncate(in_top("model/model.onnx"), (off_t)wire.count + bytes), 0);
    if (model_load_path(in_top("model/model.onnx"), NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(model->main->values[0].info.data_bytes, bytes);
    assert_int_equal(model_save(model, in_top("model/big.onnx"), NULL, &diag), INLAY_LIMIT_EXCEEDED);
    assert_non_null(strstr(diag.text, "put the weights into an external file"));
    graph_model_destroy(model);
    wire_deinit(&head);
    wire_deinit(&wire);

    mark = mw_begin(&wire, 8, 17);
    t = wire_begin(&wire, MW_INITIALIZER);
    mw_tensor_head(&wire, "w", INLAY_UINT8, 1, &bytes);
    mw_entry(&wire, 13, "location", "hole.bin");
    (void)snprintf(length, sizeof length, "%lld", (long long)bytes);
    mw_entry(&wire, 13, "length", length);
    wire_int(&wire, 14, 1);
    wire_end(&wire, t);
    wire_end(&wire, mark);
    write_file("model/model.onnx", wire.bytes, wire.count);
    write_file("model/hole.bin", "", 0);
    assert_int_equal(truncate(in_top("model/hole.bin"), bytes), 0);
    if (model_load_path(in_top("model/model.onnx"), NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(model->main->values[0].info.data_bytes, bytes);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* Files that cannot be mapped are read. */
static void models_from_pipes(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;
    int ends[2];

    (void)state;
    mw_ones(&wire, "w", 3);
    wire_end(&wire, mark);
    assert_int_equal(pipe(ends), 0);
    assert_true(wire_write(&wire, ends[1]));
    (void)close(ends[1]);
    assert_int_equal(model_load_fd(ends[0], NULL, &model, &diag), INLAY_OK);
    (void)close(ends[0]);
    assert_memory_equal(model->main->values[0].info.data, (&(float[]){ 1, 1, 1 }), 12);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locations),
        cmocka_unit_test(models_from_memory),
        cmocka_unit_test(saved_and_loaded_again),
        cmocka_unit_test(save_refuses_paths),
        cmocka_unit_test(tensors_above_2_gib),
        cmocka_unit_test(models_from_pipes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
