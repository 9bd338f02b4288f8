/* Mutates the files that a session reads in addition to the model: external data, the cache (packed weights, hashes,
 * measurements, the machine profile, verdicts on plugins), a saved plan, settings, tensors of the command line. Nothing
 * may crash, hang or leak, and a failure must have a message. A mutated cache must not change the result.
 *
 *     test_mutant_files                                as a test: a fixed seed, a bounded number
 *     test_mutant_files --seed 7 --from 0 --count 5000 manually */
#include "inlay/inlay.h"
#include "model/model.h"
#include "mutants.h"
#include "data/npy.h"
#include "onnx_bytes.h"
#include "partition/cost/cost_key.h"
#include "partition/cost/cost_profile.h"
#include "session/session.h"
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FILES = 64, HANG_SECONDS = 150, TEST_COUNT = 400, TEST_SECONDS = 40, CHANNELS = 16, SIDE = 10, OUT = 24 };

static void require(bool fine, const char *what)
{
    if (fine)
        return;
    (void)fprintf(stderr, "test_mutant_files: %s\n", what);
    abort();
}

struct saved_file {
    char path[512]; /* relative to the folder */
    uint8_t *bytes;
    size_t count;
};

static char top[] = "/tmp/inlay-mutants-XXXXXX";
static struct saved_file files[MAX_FILES];
static size_t file_count;

static void in_top(char out[640], const char *path)
{
    (void)snprintf(out, 640, "%s/%.600s", top, path);
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    char whole[640];
    FILE *file;

    in_top(whole, path);
    file = fopen(whole, "wb");
    require(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0, whole);
}

/* Walks all files below a folder, including the cache. save: stores their content; otherwise removes files that were
 * not stored. */
static void walk(const char *below, bool save)
{
    struct dirent **names;
    char whole[640];
    int count;

    in_top(whole, below);
    count = scandir(whole, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        struct stat st;
        char path[512];

        if (names[i]->d_name[0] != '.' &&
            (size_t)snprintf(path, sizeof path, "%s%s%s", below, below[0] != '\0' ? "/" : "", names[i]->d_name) <
                sizeof path) {
            in_top(whole, path);
            if (stat(whole, &st) == 0 && S_ISDIR(st.st_mode)) {
                walk(path, save);
            } else if (save && file_count < MAX_FILES) {
                struct saved_file *saved_file = &files[file_count++];
                FILE *file = fopen(whole, "rb");

                memcpy(saved_file->path, path, sizeof path);
                saved_file->count = (size_t)st.st_size;
                saved_file->bytes = malloc(saved_file->count + 1);
                require(file != NULL && saved_file->bytes != NULL &&
                            fread(saved_file->bytes, 1, saved_file->count, file) == saved_file->count,
                        whole);
                (void)fclose(file);
            } else if (!save) {
                bool known = false;

                for (size_t n = 0; n < file_count; n++)
                    known |= strcmp(files[n].path, path) == 0;
                if (!known)
                    (void)unlink(whole);
            }
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}

static void restore(void)
{
    walk("", false);
    for (size_t i = 0; i < file_count; i++)
        write_file(files[i].path, files[i].bytes, files[i].count);
}

static void external(onnx_bytes *graph, const char *name, uint32_t rank, const int64_t *dims, int64_t offset,
                     int64_t bytes)
{
    onnx_bytes tensor = { .count = 0 }, entry = { .count = 0 };
    char number[32];

    for (uint32_t d = 0; d < rank; d++)
        onnx_number(&tensor, 1, dims[d]);
    onnx_number(&tensor, 2, INLAY_FLOAT);
    onnx_text(&tensor, 8, name);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(number, sizeof number, "%lld", (long long)(i == 1 ? offset : bytes));
        entry.count = 0;
        onnx_text(&entry, 1, i == 0 ? "location" : i == 1 ? "offset" : "length");
        onnx_text(&entry, 2, i == 0 ? "w.bin" : number);
        onnx_message(&tensor, 13, &entry);
    }
    onnx_number(&tensor, 14, 1);
    onnx_message(graph, 5, &tensor);
}

/* A model with a convolution, a matrix multiplication, and an output whose size depends on data. */
static void write_model(void)
{
    static const int64_t x_dims[] = { 1, CHANNELS, SIDE, SIDE }, conv_dims[] = { CHANNELS, CHANNELS, 3, 3 };
    static const int64_t matrix_dims[] = { CHANNELS * (SIDE - 2) * (SIDE - 2), OUT }, y_dims[] = { 1, OUT },
                         z_dims[] = { 2, -1 };
    static float weights[CHANNELS * CHANNELS * 9 + CHANNELS * (SIDE - 2) * (SIDE - 2) * OUT];
    static onnx_bytes bytes, file;
    const int64_t conv_bytes = CHANNELS * CHANNELS * 9 * (int64_t)sizeof(float);

    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        weights[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    write_file("w.bin", weights, sizeof weights);
    external(&bytes, "w", 4, conv_dims, 0, conv_bytes);
    external(&bytes, "m", 2, matrix_dims, conv_bytes, (int64_t)sizeof weights - conv_bytes);
    onnx_input(&bytes, "x", INLAY_FLOAT, 4, x_dims);
    onnx_node(&bytes, "Conv", "", "x,w", "a");
    onnx_node(&bytes, "Relu", "", "a", "b");
    onnx_node(&bytes, "Flatten", "", "b", "f");
    onnx_node(&bytes, "MatMul", "", "f,m", "y");
    onnx_node(&bytes, "NonZero", "", "y", "n");
    onnx_node_int(&bytes, "Cast", "", "n", "z", "to", INLAY_FLOAT);
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, y_dims);
    onnx_output(&bytes, "z", INLAY_FLOAT, 2, z_dims);
    require(onnx_file(&file, &bytes, 17, NULL) == 0, "the model is too large");
    write_file("m.onnx", file.data, file.count);
}

static inlay_options *make_options(bool settings, bool planned, inlay_diag *diag)
{
    inlay_options *options = NULL;
    char path[640];
    inlay_status status = inlay_options_create(&options, diag);

    in_top(path, "inlay.yaml");
    if (status == INLAY_OK && settings)
        status = inlay_options_load(options, path, diag);
    in_top(path, "cache");
    if (status == INLAY_OK)
        status = inlay_options_set(options, "cache_dir", path, diag);
    in_top(path, "m.plan");
    if (status == INLAY_OK && planned)
        status = inlay_options_set(options, "plan", path, diag);
    mutants_check_message(status, diag, "options");
    if (status == INLAY_OK)
        return options;
    inlay_options_destroy(options);
    return NULL;
}

/* Opens a session with its files and runs it once. output[OUT] receives its first result. */
static inlay_status open_and_run(bool settings, bool planned, inlay_session **out, inlay_context **out_context,
                                 float *output, inlay_diag *diag)
{
    static float x[CHANNELS * SIDE * SIDE];
    static const int64_t dims[] = { 1, CHANNELS, SIDE, SIDE };
    inlay_options *options = make_options(settings, planned, diag);
    inlay_run_options limits = { .struct_size = sizeof limits, .timeout_ns = UINT64_C(20000000000) };
    inlay_value *value = NULL;
    inlay_status status = options == NULL ? INLAY_INVALID_ARGUMENT : INLAY_OK;
    char path[640];

    in_top(path, "m.onnx");
    *out = NULL;
    *out_context = NULL;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)(i % 17) / 17 - 0.4f;
    if (status == INLAY_OK)
        status = inlay_session_create(path, options, out, diag);
    if (status == INLAY_OK)
        status = inlay_context_create(*out, out_context, diag);
    if (status == INLAY_OK)
        status = inlay_context_measure(*out_context, 1, diag);
    if (status == INLAY_OK)
        status = inlay_value_create(INLAY_FLOAT, 4, dims, &value, diag);
    if (status == INLAY_OK) {
        memcpy(inlay_value_data(value), x, sizeof x);
        status = inlay_context_set_input(*out_context, 0, value, diag);
    }
    if (status == INLAY_OK)
        status = inlay_context_run(*out_context, &limits, diag);
    mutants_check_message(status, diag, "a run");
    if (status == INLAY_OK && inlay_value_bytes(inlay_context_output(*out_context, 0)) == OUT * sizeof *output)
        memcpy(output, inlay_value_data(inlay_context_output(*out_context, 0)), OUT * sizeof *output);
    inlay_value_unref(value);
    inlay_options_destroy(options);
    return status;
}

static void close_all(inlay_session *session, inlay_context *context)
{
    inlay_context_destroy(context);
    inlay_session_destroy(session);
}

static void append_plan(void *user, const char *text, size_t bytes)
{
    FILE *file = user;

    require(fwrite(text, 1, bytes, file) == bytes, "the plan");
}

/* Writes a profile as calibrate does, which would take half a minute. */
static void write_profile(const inlay_session *session)
{
    cost_profile profile = { .provider_count = 0 };
    profile_provider *list = calloc(session->env.provider_count, sizeof *list);
    profile_factor factor = { .threads = 1, .factor = 1.25, .border = 1.5 };
    profile_line line = { .threads = 1, .fit = { .error = 1.1, .points = 9 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    char folder[640];

    require(list != NULL, "no memory");
    profile_cpu(profile.cpu, sizeof profile.cpu);
    line.class.op = "Conv";
    line.fit.ns_per[0] = 100;
    line.fit.ns_per[1] = 0.01;
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        list[i] = (profile_provider){ .name = session->providers[i].name,
                                      .build_id = "1",
                                      .identity = cost_identity_of(&session->providers[i]),
                                      .lines = &line,
                                      .line_count = 1,
                                      .factors = &factor,
                                      .factor_count = 1 };
    profile.providers = list;
    profile.provider_count = session->env.provider_count;
    in_top(folder, "cache/costs");
    require(profile_save(folder, NULL, &profile, &diag) == INLAY_OK, diag.text);
    free(list);
}

/* Creates all files that a session reads and writes; output: its result. */
static void prepare(float *output)
{
    static const char settings[] = "providers: [onednn?, openblas?, reference]\nintra_threads: 1\npolicy: cost\n"
                                   "pins: ['op:Relu=reference']\nmax_run_bytes: 1G\nmodel_limits: {tensor_bytes: 64M}\n"
                                   "dim: [N=3]\nassume: {batch: 8}\nlevel: 99\npass: []\nprecision: f32\n";
    static onnx_bytes tensor;
    inlay_tune_options choice = { .struct_size = sizeof choice, .runs = 2, .budget_s = 5 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;
    inlay_context *context;
    char path[640];
    struct arena arena = { 0 };
    inlay_tensor_view view;
    FILE *file;

    write_model();
    write_file("inlay.yaml", settings, sizeof settings - 1);
    require(open_and_run(false, false, &session, &context, output, &diag) == INLAY_OK, diag.text);
    require(inlay_context_record(context, NULL, &diag) == INLAY_OK, diag.text);
    require(inlay_tune(session, &choice, NULL, &diag) == INLAY_OK, diag.text);
    write_profile(session);
    in_top(path, "m.plan");
    file = fopen(path, "w");
    require(file != NULL && inlay_session_plan_save(session, append_plan, file, &diag) == INLAY_OK && fclose(file) == 0,
            diag.text);
    close_all(session, context);
    view = (inlay_tensor_view){ .dtype = INLAY_FLOAT,
                                .rank = 2,
                                .dims = (const int64_t[]){ 1, OUT },
                                .data = output,
                                .bytes = OUT * sizeof *output };
    in_top(path, "t.npy");
    require(npy_save(path, &view, &diag) == INLAY_OK, diag.text);
    in_top(path, "t.pb");
    onnx_tensor(&tensor, "t", view.dtype, view.rank, view.dims, view.data, (size_t)view.bytes);
    file = fopen(path, "w");
    require(file != NULL && fwrite(tensor.data, 1, tensor.count, file) == tensor.count && fclose(file) == 0, path);
    arena_deinit(&arena);
    walk("", true);
    require(file_count > 5 && file_count < MAX_FILES, "unexpected number of files");
}

static size_t change_word(uint8_t *to, size_t count, uint64_t *seed)
{
    int64_t number = random_extreme(seed);
    size_t width = random_below(seed, 2) == 0 ? 4 : 8, at;

    if (count < width)
        return count;
    at = (size_t)random_below(seed, count / 4 + 1) * 4;
    memcpy(to + (at + width <= count ? at : count - width), &number, width);
    return count;
}

/* Replaces a number in a text by an extreme one. */
static size_t change_number(uint8_t *to, size_t count, size_t room, uint64_t *seed)
{
    size_t start = (size_t)random_below(seed, count + 1), end;
    char number[40];
    int n = random_below(seed, 4) == 0
                ? snprintf(number, sizeof number, "%g", ldexp(1, (int)random_below(seed, 2100) - 1050))
                : snprintf(number, sizeof number, "%lld", (long long)random_extreme(seed));

    while (start < count && (to[start] < '0' || to[start] > '9'))
        start++;
    for (end = start; end < count && to[end] >= '0' && to[end] <= '9'; end++)
        ;
    if (start >= count || count - (end - start) + (size_t)n > room)
        return count;
    memmove(to + start + n, to + end, count - end);
    memcpy(to + start, number, (size_t)n);
    return count - (end - start) + (size_t)n;
}

/* Changes bytes[count] with capacity `room`; returns the new count. */
static size_t change(uint8_t *bytes, size_t count, size_t room, uint64_t *seed)
{
    const struct saved_file *other = &files[random_below(seed, file_count)];
    size_t at = (size_t)random_below(seed, count + 1), n = (size_t)random_below(seed, 64), from;

    switch (random_below(seed, 9)) {
    case 0:
        return at;
    case 1: /* longer */
        n = n < room - count ? n : room - count;
        memset(bytes + count, (int)random_below(seed, 256), n);
        return count + n;
    case 2: /* remove a piece */
        n = n < count - at ? n : count - at;
        memmove(bytes + at, bytes + at + n, count - at - n);
        return count - n;
    case 3: /* overwrite with a piece of another file */
        from = (size_t)random_below(seed, other->count + 1);
        n = n < other->count - from ? n : other->count - from;
        n = n < count - at ? n : count - at;
        memcpy(bytes + at, other->bytes + from, n);
        return count;
    case 4: /* duplicate a piece */
        n = n < count - at ? n : count - at;
        n = n < room - count ? n : room - count;
        memmove(bytes + at + n, bytes + at, count - at);
        return count + n;
    case 5:
    case 6:
        return change_number(bytes, count, room, seed);
    case 7:
        return change_word(bytes, count, seed);
    default:
        for (uint64_t i = 1 + random_below(seed, 8); i > 0 && count > 0; i--)
            bytes[random_below(seed, count)] ^= (uint8_t)(1u << random_below(seed, 8));
        return count;
    }
}

static void read_tensors(void)
{
    struct arena arena = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_tensor_view view;
    model_datum datum;
    char path[640];

    in_top(path, "t.npy");
    mutants_check_message(npy_load(path, INLAY_UNDEFINED, &arena, &view, &diag), &diag, "t.npy");
    in_top(path, "t.pb");
    for (uint32_t kind = INLAY_VALUE_TENSOR; kind <= INLAY_VALUE_MAP; kind++)
        mutants_check_message(model_datum_load(path, kind, &arena, &datum, &diag), &diag, "t.pb");
    arena_deinit(&arena);
}

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Changes a file and reads it. output: the result with the original files. Returns whether the model ran. */
static bool try_mutant(uint64_t *seed, const float *output, bool verbose)
{
    const struct saved_file *saved_file = &files[random_below(seed, file_count)];
    bool in_cache = starts_with(saved_file->path, "cache/"), planned = strcmp(saved_file->path, "m.plan") == 0;
    bool settings = strcmp(saved_file->path, "inlay.yaml") == 0, ran = false;
    size_t room = saved_file->count + 4096, count = saved_file->count;
    uint8_t *bytes = malloc(room);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session;
    inlay_context *context;
    float got[OUT];

    require(bytes != NULL, "no memory");
    memcpy(bytes, saved_file->bytes, count);
    for (uint64_t n = 1 + random_below(seed, 3); n > 0; n--)
        count = change(bytes, count, room, seed);
    write_file(saved_file->path, bytes, count);
    free(bytes);
    if (verbose)
        (void)printf("%s\n", saved_file->path);
    if (starts_with(saved_file->path, "t.")) {
        read_tensors();
    } else {
        inlay_status status = open_and_run(settings, planned, &session, &context, got, &diag);

        ran = status == INLAY_OK;
        if (verbose)
            (void)printf("status %d: %s\n", (int)status, ran ? "" : diag.text);
        if (in_cache)
            require(ran, diag.text);
        for (int i = 0; in_cache && i < OUT; i++)
            require(fabsf(got[i] - output[i]) <= 1e-3f * (1 + fabsf(output[i])), saved_file->path);
        if (ran && random_below(seed, 16) == 0)
            mutants_check_message(inlay_context_record(context, NULL, &diag), &diag, "to record");
        close_all(session, context);
    }
    restore();
    return ran;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, from = 0, count = 0, done = 0, ran = 0;
    time_t start = time(NULL);
    char line[64];
    float y[OUT];

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *to = strcmp(argv[i], "--seed") == 0 ? &seed : strcmp(argv[i], "--from") == 0 ? &from : &count;

        *to = strtoull(argv[i + 1], NULL, 10);
    }
    require(mkdtemp(top) != NULL, "no folder");
    mutants_limit(HANG_SECONDS);
    prepare(y);
    for (uint64_t i = from; i < from + (count > 0 ? count : TEST_COUNT); i++) {
        uint64_t own = seed * UINT64_C(0xd1342543de82ef95) + i * UINT64_C(0x2545f4914f6cdd1d);

        if (count == 0 && time(NULL) - start > TEST_SECONDS)
            break;
        mutants_limit(HANG_SECONDS);
        (void)snprintf(line, sizeof line, "%llu\n", (unsigned long long)i);
        if (count > 1)
            write_file(".at", line, strlen(line));
        ran += try_mutant(&own, y, count == 1);
        done++;
    }
    mutants_limit(0);
    (void)printf("%llu mutants of %zu files, %llu of them ran\n", (unsigned long long)done, file_count,
                 (unsigned long long)ran);
    (void)snprintf(line, sizeof line, "rm -r %s", top);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].bytes);
    return system(line) == 0 ? 0 : 1;
}
