/* Hashes of constants are remembered as long as their file is the same, and no longer. */
#include "folder.h"
#include "model.h"
#include "model/model.h"
#include "session/hash_memo.h"

enum { CONSTANTS = 3, AGE = 10 }; /* of at least 64 KiB */

struct hashes {
    uint64_t of[CONSTANTS];
    uint32_t read;
};

/* What a session that opens the file `later` seconds after its last change gets, however long this test takes. */
static struct hashes look(const char *path, const char *memos, int later)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct hashes h = { .read = 0 };
    graph_model *model;
    struct stat st;
    uint32_t n = 0;

    assert_int_equal(stat(path, &st), 0);
    if (model_load_path(path, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    h.read = hash_constants(model->main, memos, (int64_t)st.st_ctime + later);
    for (uint32_t v = 0; v < model->main->value_count; v++) {
        inlay_value_info *info = &model->main->values[v].info;
        uint64_t was = info->content_hash;

        if (was == 0)
            continue;
        assert_true(n < CONSTANTS);
        h.of[n++] = was;
        info->content_hash = 0; /* what is remembered must be what reading gives */
        assert_int_equal(graph_constant_hash(model->main, v), was);
    }
    assert_int_equal(n, CONSTANTS);
    graph_model_destroy(model);
    return h;
}

static void remembered(void **state)
{
    struct folder f = folder_make();
    char path[512], memo[512];
    struct wire w = model_make(0.25f);
    long place = model_place(&w, 0.25f);
    struct hashes first, h;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/m.onnx", f.path);
    model_write_to(&w, path);
    first = look(path, f.path, 0); /* too young to be remembered */
    assert_int_equal(first.read, CONSTANTS);
    assert_int_equal(folder_count(&f, "", ".hashes", NULL), 0);
    assert_int_equal(look(path, NULL, AGE).read, CONSTANTS);
    assert_int_equal(look(path, f.path, AGE).read, CONSTANTS);
    assert_int_equal(folder_count(&f, "", ".hashes", memo), 1);
    h = look(path, f.path, 0);
    assert_int_equal(h.read, 0);
    assert_memory_equal(h.of, first.of, sizeof h.of);

    /* A bit of a weight, with the file's own time put back. */
    folder_flip(path, place + 100, true);
    h = look(path, f.path, 0);
    assert_int_equal(h.read, CONSTANTS);
    assert_int_not_equal(h.of[0], first.of[0]);
    assert_memory_equal(&h.of[1], &first.of[1], sizeof h.of - sizeof h.of[0]);
    folder_flip(path, place + 100, true);
    h = look(path, f.path, 0);
    assert_int_equal(h.read, CONSTANTS);
    assert_memory_equal(h.of, first.of, sizeof h.of);

    /* Another file by this name. */
    assert_int_equal(unlink(path), 0);
    w.bytes[place + 4] ^= 1;
    model_write_to(&w, path);
    h = look(path, f.path, 0);
    assert_int_equal(h.read, CONSTANTS);
    assert_int_not_equal(h.of[0], first.of[0]);
    free(w.bytes);
    folder_remove(&f);
}

static void damaged(void **state)
{
    struct folder f = folder_make();
    char path[512], memo[512];
    struct wire w = model_make(0.25f);
    struct stat st;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/m.onnx", f.path);
    model_write_to(&w, path);
    assert_int_equal(look(path, f.path, AGE).read, CONSTANTS);
    assert_int_equal(folder_count(&f, "", ".hashes", memo), 1);
    assert_int_equal(stat(memo, &st), 0);
    for (long at = 0; at < st.st_size; at++) {
        folder_flip(memo, at, true);
        assert_int_equal(look(path, f.path, at % 16 == 0 ? AGE : 0).read, CONSTANTS);
        if (at % 16 == 0)
            assert_int_equal(look(path, f.path, 0).read, 0); /* written anew */
        else
            folder_flip(memo, at, true);
    }
    assert_int_equal(truncate(memo, st.st_size - 1), 0);
    assert_int_equal(look(path, f.path, 0).read, CONSTANTS);
    assert_int_equal(truncate(memo, 0), 0);
    assert_int_equal(look(path, f.path, 0).read, CONSTANTS);
    assert_int_equal(chmod(f.path, 0500), 0);
    assert_int_equal(look(path, f.path, AGE).read, CONSTANTS);
    assert_int_equal(look(path, "/nowhere/at/all", AGE).read, CONSTANTS);
    free(w.bytes);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(remembered), cmocka_unit_test(damaged) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
