/* Model files in ONNX Runtime's own library with libinlay_ep.so and without it: equal results on random inputs.
 *     inlay_ep_files LEAST FOLDER...    each folder has cases NAME/model.onnx; at least LEAST have to be compared */
#include "stock.h"
#include "random.h"
#include <dirent.h>
#include <unistd.h>

enum { MOST_VALUES = 32, MOST_RANK = 8, OPEN_SIZE = 2 };

static int folder_count;
static char **folders;
static size_t least;

/* A session with the names of its inputs and outputs. */
struct opened {
    OrtSession *session;
    char *inputs[MOST_VALUES], *outputs[MOST_VALUES];
    size_t input_count, output_count;
};

static void list_values(struct opened *opened)
{
    ok(api->SessionGetInputCount(opened->session, &opened->input_count));
    ok(api->SessionGetOutputCount(opened->session, &opened->output_count));
    assert_true(opened->input_count <= MOST_VALUES && opened->output_count <= MOST_VALUES);
    for (size_t i = 0; i < opened->input_count; i++)
        ok(api->SessionGetInputName(opened->session, i, allocator, &opened->inputs[i]));
    for (size_t i = 0; i < opened->output_count; i++)
        ok(api->SessionGetOutputName(opened->session, i, allocator, &opened->outputs[i]));
}

static void close_session(struct opened *opened)
{
    for (size_t i = 0; i < opened->input_count; i++)
        allocator->Free(allocator, opened->inputs[i]);
    for (size_t i = 0; i < opened->output_count; i++)
        allocator->Free(allocator, opened->outputs[i]);
    api->ReleaseSession(opened->session);
}

/* A random input of the model; open sizes are OPEN_SIZE. NULL: it has another type. */
static OrtValue *make_input(const struct opened *opened, size_t index, uint64_t *seed)
{
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    OrtTypeInfo *info = NULL;
    int64_t dims[MOST_RANK];
    size_t rank = 0, count = 1;
    OrtValue *value = NULL;
    void *data;
    int type = 0;

    ok(api->SessionGetInputTypeInfo(opened->session, index, &info));
    ok(api->CastTypeInfoToTensorInfo(info, &shape));
    if (shape != NULL) {
        ok(api->GetTensorElementType(shape, &type));
        ok(api->GetDimensionsCount(shape, &rank));
        assert_true(rank <= MOST_RANK);
        ok(api->GetDimensions(shape, dims, rank));
    }
    api->ReleaseTypeInfo(info);
    if (type != FLOAT && type != INT64 && type != INT32 && type != BOOL && type != DOUBLE)
        return NULL;
    for (size_t d = 0; d < rank; d++) {
        dims[d] = dims[d] < 0 ? OPEN_SIZE : dims[d];
        count *= (size_t)dims[d];
    }
    ok(api->CreateTensorAsOrtValue(allocator, dims, rank, type, &value));
    ok(api->GetTensorMutableData(value, &data));
    for (size_t i = 0; i < count; i++) {
        if (type == FLOAT)
            ((float *)data)[i] = random_signed(seed);
        else if (type == DOUBLE)
            ((double *)data)[i] = (double)random_signed(seed);
        else if (type == INT64)
            ((int64_t *)data)[i] = random_between(seed, 0, 1);
        else if (type == INT32)
            ((int32_t *)data)[i] = (int32_t)random_between(seed, 0, 1);
        else
            ((unsigned char *)data)[i] = (unsigned char)random_below(seed, 2);
    }
    return value;
}

static bool is_float(const OrtValue *value)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    int is_tensor = 0, type = 0;

    ok(api->IsTensor(value, &is_tensor));
    if (is_tensor == 0)
        return false;
    ok(api->GetTensorTypeAndShape(value, &info));
    ok(api->GetTensorElementType(info, &type));
    api->ReleaseTensorTypeAndShapeInfo(info);
    return type == FLOAT || type == INT64 || type == BOOL;
}

static bool run_file(const struct opened *opened, OrtValue *const *inputs, OrtValue **outputs)
{
    OrtStatus *failed =
        api->Run(opened->session, NULL, (const char *const *)opened->inputs, (const OrtValue *const *)inputs,
                 opened->input_count, (const char *const *)opened->outputs, opened->output_count, outputs);

    api->ReleaseStatus(failed);
    return failed == NULL;
}

/* Runs both sessions on the same inputs. False: the runtime itself does not run the model on them. */
static bool compare_runs(const char *path, const struct opened *stock, const struct opened *with, uint64_t *seed)
{
    OrtValue *inputs[MOST_VALUES] = { NULL }, *expected[MOST_VALUES] = { NULL }, *actual[MOST_VALUES] = { NULL };
    bool runs = true;

    for (size_t i = 0; i < stock->input_count; i++) {
        inputs[i] = make_input(stock, i, seed);
        runs = runs && inputs[i] != NULL;
    }
    runs = runs && run_file(stock, inputs, expected);
    if (runs && !run_file(with, inputs, actual))
        fail_msg("%s runs without inlay only", path);
    for (size_t i = 0; i < stock->output_count; i++) {
        if (runs && is_float(expected[i]))
            same_values(path, expected[i], actual[i]);
        api->ReleaseValue(expected[i]);
        api->ReleaseValue(actual[i]);
    }
    for (size_t i = 0; i < stock->input_count; i++)
        api->ReleaseValue(inputs[i]);
    return runs;
}

/* Returns whether inlay ran nodes of the model, with equal results. */
static bool compare_file(const char *path, const OrtSessionOptions *plain, const OrtSessionOptions *options)
{
    struct opened stock = { 0 }, with = { 0 };
    OrtStatus *failed = api->CreateSession(env, path, plain, &stock.session);
    size_t groups = 0, nodes;
    uint64_t seed = 42;
    bool runs;

    if (failed != NULL) { /* the runtime does not support the model */
        api->ReleaseStatus(failed);
        return false;
    }
    ok(api->CreateSession(env, path, options, &with.session));
    list_values(&stock);
    list_values(&with);
    nodes = nodes_of_inlay(with.session, &groups);
    runs = compare_runs(path, &stock, &with, &seed) && compare_runs(path, &stock, &with, &seed);
    close_session(&stock);
    close_session(&with);
    return runs && nodes > 0;
}

static void test_files(void **state)
{
    OrtSessionOptions *plain = NULL, *options = options_with("intra_threads", "1");
    size_t found = 0, compared = 0;

    (void)state;
    ok(api->CreateSessionOptions(&plain));
    for (int i = 0; i < folder_count; i++) {
        DIR *dir = opendir(folders[i]);
        const struct dirent *entry;

        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            char path[4096];

            (void)snprintf(path, sizeof path, "%s/%s/model.onnx", folders[i], entry->d_name);
            if (access(path, R_OK) != 0)
                continue;
            found++;
            compared += compare_file(path, plain, options);
        }
        if (dir != NULL)
            (void)closedir(dir);
    }
    print_message("%zu of %zu models compared\n", compared, found);
    assert_true(compared >= least);
    api->ReleaseSessionOptions(plain);
    api->ReleaseSessionOptions(options);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_files) };

    if (argc < 3)
        return 2;
    least = strtoull(argv[1], NULL, 10);
    folder_count = argc - 2;
    folders = argv + 2;
    return cmocka_run_group_tests_name("inlay_ep_files", tests, begin, end);
}
