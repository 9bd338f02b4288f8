/* Hashes of constants are cached while their file is unchanged. */
#include "folder.h"
#include "model.h"
#include "model/model.h"
#include "session/hash_memo.h"

enum { CONSTANTS = 3, AGE = 10 }; /* of at least 64 KiB each */

struct hashes {
    uint64_t of[CONSTANTS];
    uint32_t read;
};

/* Returns the hashes that a session would use if it opened the file `later` seconds after the last change of the file.
 * They do not depend on the duration of the test. */
static struct hashes read_hashes(const char *path, const char *hash_dir, int later)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct hashes hashes = { .read = 0 };
    graph_model *model;
    struct stat st;
    uint32_t n = 0;

    assert_int_equal(stat(path, &st), 0);
    if (model_load_path(path, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    hashes.read = hash_constants(model->main, hash_dir, (int64_t)st.st_ctime + later);
    for (uint32_t value = 0; value < model->main->value_count; value++) {
        inlay_value_info *info = &model->main->values[value].info;
        uint64_t was = info->content_hash;

        if (was == 0)
            continue;
        assert_true(n < CONSTANTS);
        hashes.of[n++] = was;
        info->content_hash = 0; /* the cached hash must equal the computed one */
        assert_int_equal(graph_constant_hash(model->main, value), was);
    }
    assert_int_equal(n, CONSTANTS);
    graph_model_destroy(model);
    return hashes;
}

static void hashes_are_cached(void **state)
{
    struct folder folder = folder_make();
    char path[512], hash_file[512];
    struct wire wire = model_make(0.25f);
    long place = model_first_weight(&wire, 0.25f);
    struct hashes first, hashes;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/m.onnx", folder.path);
    mw_save(&wire, path);
    first = read_hashes(path, folder.path, 0); /* too recently changed to be cached */
    assert_int_equal(first.read, CONSTANTS);
    assert_int_equal(folder_count(&folder, "", ".hashes", NULL), 0);
    assert_int_equal(read_hashes(path, NULL, AGE).read, CONSTANTS);
    assert_int_equal(read_hashes(path, folder.path, AGE).read, CONSTANTS);
    assert_int_equal(folder_count(&folder, "", ".hashes", hash_file), 1);
    hashes = read_hashes(path, folder.path, 0);
    assert_int_equal(hashes.read, 0);
    assert_memory_equal(hashes.of, first.of, sizeof hashes.of);

    /* Flips a bit of a weight and restores the file's time. */
    folder_flip(path, place + 100, true);
    hashes = read_hashes(path, folder.path, 0);
    assert_int_equal(hashes.read, CONSTANTS);
    assert_int_not_equal(hashes.of[0], first.of[0]);
    assert_memory_equal(&hashes.of[1], &first.of[1], sizeof hashes.of - sizeof hashes.of[0]);
    folder_flip(path, place + 100, true);
    hashes = read_hashes(path, folder.path, 0);
    assert_int_equal(hashes.read, CONSTANTS);
    assert_memory_equal(hashes.of, first.of, sizeof hashes.of);

    /* Replaces the file. */
    assert_int_equal(unlink(path), 0);
    wire.bytes[place + 4] ^= 1;
    mw_save(&wire, path);
    hashes = read_hashes(path, folder.path, 0);
    assert_int_equal(hashes.read, CONSTANTS);
    assert_int_not_equal(hashes.of[0], first.of[0]);
    free(wire.bytes);
    folder_remove(&folder);
}

static void damaged(void **state)
{
    struct folder folder = folder_make();
    char path[512], hash_file[512];
    struct wire wire = model_make(0.25f);
    struct stat st;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/m.onnx", folder.path);
    mw_save(&wire, path);
    assert_int_equal(read_hashes(path, folder.path, AGE).read, CONSTANTS);
    assert_int_equal(folder_count(&folder, "", ".hashes", hash_file), 1);
    assert_int_equal(stat(hash_file, &st), 0);
    for (long at = 0; at < st.st_size; at++) {
        folder_flip(hash_file, at, true);
        assert_int_equal(read_hashes(path, folder.path, at % 16 == 0 ? AGE : 0).read, CONSTANTS);
        if (at % 16 == 0)
            assert_int_equal(read_hashes(path, folder.path, 0).read, 0); /* the file was written again */
        else
            folder_flip(hash_file, at, true);
    }
    assert_int_equal(truncate(hash_file, st.st_size - 1), 0);
    assert_int_equal(read_hashes(path, folder.path, 0).read, CONSTANTS);
    assert_int_equal(truncate(hash_file, 0), 0);
    assert_int_equal(read_hashes(path, folder.path, 0).read, CONSTANTS);
    assert_int_equal(chmod(folder.path, 0500), 0);
    assert_int_equal(read_hashes(path, folder.path, AGE).read, CONSTANTS);
    assert_int_equal(read_hashes(path, "/nowhere/at/all", AGE).read, CONSTANTS);
    free(wire.bytes);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(hashes_are_cached), cmocka_unit_test(damaged) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
