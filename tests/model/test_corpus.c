/* All of ONNX's test cases: every model can be loaded, and is unchanged after saving and loading; every value file can
 * be loaded. Then mutants of the small models: for any file, the loader returns a model or an error message. */
#define _XOPEN_SOURCE 700
#include "cmocka_all.h"
#include "random.h"
#include "graph_text.h"
#include "model/model.h"
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_FILES = 20000, MUTANTS_EACH = 24, SMALL = 4096 };

static char *models[MAX_FILES];
static size_t model_count;

static int note(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    size_t length = strlen(path);

    (void)st;
    (void)ftw;
    if (type == FTW_F && length > 5 && strcmp(path + length - 5, ".onnx") == 0 && model_count < MAX_FILES)
        models[model_count++] = strdup(path);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int set_up(void **state)
{
    (void)state;
    (void)nftw(ONNX_TEST_DATA, note, 16, FTW_PHYS);
    qsort(models, model_count, sizeof *models, by_name);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < model_count; i++)
        free(models[i]);
    return 0;
}

static graph_model *load(const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;

    if (model_load_path(path, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

static void compare(const graph_model *a, const graph_model *b, const char *path)
{
    char *x = graph_to_text(a->main), *y = graph_to_text(b->main);
    struct arena scratch = { 0 };
    inlay_graph graph, other;

    if (strcmp(x, y) != 0)
        fail_msg("%s: another graph after saving:\n%s\n%s", path, x, y);
    free(x);
    free(y);
    assert_int_equal(graph_snapshot(a->main, &scratch, &graph, NULL), INLAY_OK);
    assert_int_equal(graph_snapshot(b->main, &scratch, &other, NULL), INLAY_OK);
    if (graph.content_hash != other.content_hash)
        fail_msg("%s: another hash after saving", path);
    arena_deinit(&scratch);
}

static void models_survive_saving(void **state)
{
    char dir[] = "/tmp/inlay-corpus-XXXXXX", path[64], data[64];

    (void)state;
    if (model_count == 0)
        skip();
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/model.onnx", dir);
    (void)snprintf(data, sizeof data, "%s/model.data", dir);
    for (size_t i = 0; i < model_count; i++) {
        model_save_options options = { .external_file = i % 2 == 0 ? NULL : "model.data", .external_bytes = 64 };
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model = load(models[i]), *again;

        if (model_save(model, path, &options, &diag) != INLAY_OK)
            fail_msg("%s: %s", models[i], diag.text);
        again = load(path);
        compare(model, again, models[i]);
        graph_model_destroy(model);
        graph_model_destroy(again);
    }
    (void)unlink(path);
    (void)unlink(data);
    (void)rmdir(dir);
}

static void values_load(void **state)
{
    size_t loaded = 0;

    (void)state;
    if (model_count == 0)
        skip();
    for (size_t i = 0; i < model_count; i++) {
        graph_model *model = load(models[i]);
        struct arena arena = { 0 };
        char path[4096];
        inlay_diag diag = INLAY_DIAG_INIT;
        model_datum datum;

        for (uint32_t k = 0; k < model->main->input_count; k++) {
            const inlay_value_info *info = &model->main->values[model->main->inputs[k]].info;

            (void)snprintf(path, sizeof path, "%.*s/test_data_set_0/input_%u.pb",
                           (int)(strrchr(models[i], '/') - models[i]), models[i], k);
            if (access(path, R_OK) != 0)
                continue;
            if (model_datum_load(path, info->kind, &arena, &datum, &diag) != INLAY_OK)
                fail_msg("%s", diag.text);
            /* ONNX stores some bfloat16 inputs as uint16 with the same bits. */
            if (info->kind == INLAY_VALUE_TENSOR &&
                inlay_dtype_bits(datum.tensor.dtype) != inlay_dtype_bits(info->dtype))
                fail_msg("%s: type %d, but the model says %d", path, datum.tensor.dtype, info->dtype);
            loaded++;
        }
        arena_deinit(&arena);
        graph_model_destroy(model);
    }
    assert_true(loaded > 0);
}

static uint64_t random_state = 1;

/* Changes bytes as damaged or malicious files do; returns the new size. */
static size_t mutate(uint8_t *bytes, size_t count)
{
    uint32_t at = random_below(&random_state, (uint32_t)count), n = 1 + random_below(&random_state, 8);

    switch (random_below(&random_state, 6)) {
    case 0:
        return at; /* truncated */
    case 1:
        bytes[at] ^= (uint8_t)(1u << random_below(&random_state, 8));
        break;
    case 2:
        bytes[at] = (uint8_t)(0xffu >> random_below(&random_state, 2));
        break;
    case 3: /* a piece is removed */
        n = n < count - at ? n : (uint32_t)count - at;
        memmove(bytes + at, bytes + at + n, count - at - n);
        return count - n;
    case 4: /* a piece is repeated and overwrites what follows */
        n = n < (count - at) / 2 ? n : (uint32_t)(count - at) / 2;
        memmove(bytes + at + n, bytes + at, n);
        break;
    default:
        for (uint32_t i = 0; i < n; i++)
            bytes[random_below(&random_state, (uint32_t)count)] = (uint8_t)random_below(&random_state, 256);
        break;
    }
    return count;
}

static size_t read_small(const char *path, uint8_t *bytes)
{
    FILE *file = fopen(path, "rb");
    size_t n = file == NULL ? 0 : fread(bytes, 1, SMALL + 1, file);

    if (file != NULL)
        (void)fclose(file);
    return n <= SMALL ? n : 0;
}

static void mutants_are_handled(void **state)
{
    model_load_options options = { .limits = { .densified_bytes = 1 << 20 } };
    size_t refused = 0, total = 0;
    uint8_t original[SMALL + 1], *mutant;

    (void)state;
    if (model_count == 0)
        skip();
    for (size_t i = 0; i < model_count; i++) {
        size_t count = read_small(models[i], original);

        for (int k = 0; k < MUTANTS_EACH && count > 0; k++) {
            inlay_diag diag = INLAY_DIAG_INIT;
            graph_model *model;
            size_t n;

            mutant = malloc(count); /* on the heap with the exact size, so that the sanitizer detects every over-read */
            assert_non_null(mutant);
            memcpy(mutant, original, count);
            n = mutate(mutant, count);
            mutant = realloc(mutant, n == 0 ? 1 : n);
            assert_non_null(mutant);
            total++;
            if (model_load_bytes(mutant, n, &options, &model, &diag) == INLAY_OK) {
                char *text;

                if (graph_inline_functions(model, &diag) == INLAY_OK) {
                    text = graph_to_text(model->main);
                    free(text);
                }
            } else {
                refused++;
                assert_true(diag.text[0] != '\0' && strchr(diag.text, '\n') == NULL);
            }
            graph_model_destroy(model);
            free(mutant);
        }
    }
    assert_true(refused > 0 && refused < total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_survive_saving),
        cmocka_unit_test(values_load),
        cmocka_unit_test(mutants_are_handled),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
