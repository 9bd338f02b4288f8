/* The compile interface (OrtCompileApi): writes the optimised model. No provider of this library stores compiled nodes
 * in a model, as ONNX Runtime's CPU provider does not: compiled regions are in the cache folder. */
#include "wire.h"
#include "inlay/check.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLAG_ERROR_IF_NO_NODES_COMPILED = 1, FLAG_ERROR_IF_OUTPUT_FILE_EXISTS = 2, ALL_FLAGS = 3 };

struct OrtModelCompilationOptions {
    OrtSessionOptions *options; /* a copy */
    int level;
    uint32_t flags;
    /* the model: exactly one of them */
    char *in_path;
    const void *in_data; /* [in_bytes] of the program */
    size_t in_bytes;
    const OrtModel *in_model;
    /* where the result is written; none: next to in_path */
    char *out_path, *external_path;
    OrtAllocator *allocator;
    void **out_data;
    size_t *out_bytes;
    OrtWriteBufferFunc write;
    void *write_state;
    OrtGetInitializerLocationFunc locate; /* NULL: initializers are in the model or in external_path */
    void *locate_state;
};

void ort_ReleaseModelCompilationOptions(OrtModelCompilationOptions *input)
{
    if (input == NULL)
        return;
    ort_ReleaseSessionOptions(input->options);
    free(input->in_path);
    free(input->out_path);
    free(input->external_path);
    free(input);
}

OrtStatus *ort_CreateModelCompilationOptionsFromSessionOptions(const OrtEnv *env,
                                                               const OrtSessionOptions *session_options,
                                                               OrtModelCompilationOptions **out)
{
    OrtModelCompilationOptions *made;
    OrtStatus *failed;

    ORT_NEED(env);
    ORT_NEED(session_options);
    ORT_NEED(out);
    *out = NULL;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ort_no_memory();
    failed = ort_CloneSessionOptions(session_options, &made->options);
    if (failed != NULL)
        ort_ReleaseModelCompilationOptions(made);
    else
        *out = made;
    return failed;
}

/* Only the model that was set last is compiled. */
static OrtStatus *set_input(OrtModelCompilationOptions *to, const char *path, const void *data, size_t bytes,
                            const OrtModel *model)
{
    ORT_NEED(to);
    if (path != NULL && path[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "Invalid input model: path is empty");
    if (path == NULL && model == NULL && (data == NULL || bytes == 0))
        return ort_fail(ORT_INVALID_ARGUMENT, "Invalid input buffer: size is zero, or the buffer is NULL");
    if (!ort_set_text(&to->in_path, path))
        return ort_no_memory();
    to->in_data = data;
    to->in_bytes = bytes;
    to->in_model = model;
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetInputModelPath(OrtModelCompilationOptions *model_compile_options,
                                                         const char *input_model_path)
{
    ORT_NEED(input_model_path);
    return set_input(model_compile_options, input_model_path, NULL, 0, NULL);
}

OrtStatus *ort_ModelCompilationOptions_SetInputModelFromBuffer(OrtModelCompilationOptions *model_compile_options,
                                                               const void *input_model_data,
                                                               size_t input_model_data_size)
{
    return set_input(model_compile_options, NULL, input_model_data, input_model_data_size, NULL);
}

OrtStatus *ort_ModelCompilationOptions_SetInputModel(OrtModelCompilationOptions *model_compile_options,
                                                     const OrtModel *model)
{
    ORT_NEED(model);
    return set_input(model_compile_options, NULL, NULL, 0, model);
}

static void clear_output(OrtModelCompilationOptions *to)
{
    free(to->out_path);
    to->out_path = NULL;
    to->allocator = NULL;
    to->write = NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetOutputModelPath(OrtModelCompilationOptions *model_compile_options,
                                                          const char *output_model_path)
{
    ORT_NEED(model_compile_options);
    if (output_model_path == NULL || output_model_path[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "Invalid output model path: path is empty");
    clear_output(model_compile_options);
    return ort_set_text(&model_compile_options->out_path, output_model_path) ? NULL : ort_no_memory();
}

OrtStatus *
ort_ModelCompilationOptions_SetOutputModelExternalInitializersFile(OrtModelCompilationOptions *model_compile_options,
                                                                   const char *external_initializers_file_path,
                                                                   size_t external_initializers_size_threshold)
{
    (void)external_initializers_size_threshold; /* inlay decides which initializers are large */
    ORT_NEED(model_compile_options);
    if (external_initializers_file_path == NULL || external_initializers_file_path[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "Invalid external initializer file: path is empty");
    model_compile_options->locate = NULL;
    return ort_set_text(&model_compile_options->external_path, external_initializers_file_path) ? NULL
                                                                                                : ort_no_memory();
}

OrtStatus *ort_ModelCompilationOptions_SetOutputModelBuffer(OrtModelCompilationOptions *model_compile_options,
                                                            OrtAllocator *allocator, void **output_model_buffer_ptr,
                                                            size_t *output_model_buffer_size_ptr)
{
    ORT_NEED(model_compile_options);
    ORT_NEED(allocator);
    ORT_NEED(output_model_buffer_ptr);
    ORT_NEED(output_model_buffer_size_ptr);
    clear_output(model_compile_options);
    model_compile_options->allocator = allocator;
    model_compile_options->out_data = output_model_buffer_ptr;
    model_compile_options->out_bytes = output_model_buffer_size_ptr;
    *output_model_buffer_ptr = NULL;
    *output_model_buffer_size_ptr = 0;
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetOutputModelWriteFunc(OrtModelCompilationOptions *model_compile_options,
                                                               OrtWriteBufferFunc write_func, void *state)
{
    ORT_NEED(model_compile_options);
    ORT_NEED(write_func);
    clear_output(model_compile_options);
    model_compile_options->write = write_func;
    model_compile_options->write_state = state;
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetEpContextEmbedMode(OrtModelCompilationOptions *model_compile_options,
                                                             bool embed_ep_context_in_model)
{
    (void)embed_ep_context_in_model; /* the result has no EPContext nodes */
    ORT_NEED(model_compile_options);
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetEpContextBinaryInformation(OrtModelCompilationOptions *model_compile_options,
                                                                     const char *output_directory,
                                                                     const char *model_name)
{
    ORT_NEED(model_compile_options);
    ORT_NEED(output_directory);
    ORT_NEED(model_name);
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetFlags(OrtModelCompilationOptions *model_compile_options, uint32_t flags)
{
    ORT_NEED(model_compile_options);
    if ((flags & ~(uint32_t)ALL_FLAGS) != 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "unknown compilation flags: %u", flags & ~(uint32_t)ALL_FLAGS);
    model_compile_options->flags = flags;
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetGraphOptimizationLevel(OrtModelCompilationOptions *model_compile_options,
                                                                 GraphOptimizationLevel graph_optimization_level)
{
    ORT_NEED(model_compile_options);
    model_compile_options->level = graph_optimization_level;
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(
    OrtModelCompilationOptions *model_compile_options, OrtGetInitializerLocationFunc get_initializer_location_func,
    void *state)
{
    ORT_NEED(model_compile_options);
    ORT_NEED(get_initializer_location_func);
    free(model_compile_options->external_path);
    model_compile_options->external_path = NULL;
    model_compile_options->locate = get_initializer_location_func;
    model_compile_options->locate_state = state;
    return NULL;
}

OrtStatus *ort_ModelCompilationOptions_SetWeightlessEnabled(OrtModelCompilationOptions *model_compile_options,
                                                            bool use_weightless)
{
    (void)use_weightless; /* only concerns providers that store compiled nodes in the model */
    ORT_NEED(model_compile_options);
    return NULL;
}

/* A compilation: models in memory are files of a temporary folder meanwhile. */
struct job {
    const OrtModelCompilationOptions *from;
    char folder[PATH_MAX - 16]; /* empty: none was needed */
    char in_file[PATH_MAX], out_file[PATH_MAX];
    char *beside; /* the default of out_path; malloc */
};

static OrtStatus *make_folder(struct job *job)
{
    const char *temporary = secure_getenv("TMPDIR");
    int bytes;

    if (job->folder[0] != '\0')
        return NULL;
    if (temporary == NULL || temporary[0] == '\0')
        temporary = "/tmp";
    bytes = snprintf(job->folder, sizeof job->folder, "%s/inlay-compile-XXXXXX", temporary);
    if ((size_t)bytes >= sizeof job->folder || mkdtemp(job->folder) == NULL) {
        job->folder[0] = '\0';
        return ort_fail(ORT_FAIL, "CompileModel: no folder can be made in %s", temporary);
    }
    (void)snprintf(job->in_file, sizeof job->in_file, "%s/in.onnx", job->folder);
    (void)snprintf(job->out_file, sizeof job->out_file, "%s/out.onnx", job->folder);
    return NULL;
}

static void remove_folder(const struct job *job)
{
    if (job->folder[0] == '\0')
        return;
    (void)unlink(job->in_file);
    (void)unlink(job->out_file);
    (void)rmdir(job->folder);
}

static OrtStatus *write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wbe");
    bool ok = file != NULL && fwrite(data, 1, bytes, file) == bytes;

    if (file != NULL && fclose(file) != 0)
        ok = false;
    return ok ? NULL : ort_fail(ORT_FAIL, "CompileModel: %s cannot be written", path);
}

/* The path of the model that is compiled. */
static OrtStatus *input_path(struct job *job, const char **out)
{
    const OrtModelCompilationOptions *from = job->from;
    void *data = NULL;
    size_t bytes = 0;
    OrtStatus *failed;

    *out = from->in_path;
    if (from->in_path != NULL)
        return NULL;
    if (from->in_model == NULL && from->in_data == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "Input model to compile must be set: call SetInputModelPath, "
                                              "SetInputModelFromBuffer or SetInputModel");
    ORT_TRY(make_folder(job));
    *out = job->in_file;
    if (from->in_model == NULL)
        return write_file(job->in_file, from->in_data, from->in_bytes);
    ORT_TRY(ort_model_write(from->in_model, &data, &bytes));
    failed = write_file(job->in_file, data, bytes);
    free(data);
    return failed;
}

/* MODEL.onnx is compiled to MODEL_ctx.onnx. */
static OrtStatus *default_output(struct job *job, const char **out)
{
    const char *path = job->from->in_path, *slash, *dot;
    const size_t bytes = path != NULL ? strlen(path) + sizeof "_ctx.onnx" : 0;

    if (path == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "Unable to generate an output model path for an input model in memory: "
                                              "call SetOutputModelPath or SetOutputModelBuffer");
    job->beside = malloc(bytes);
    if (job->beside == NULL)
        return ort_no_memory();
    slash = strrchr(path, '/');
    dot = strrchr(slash != NULL ? slash : path, '.');
    (void)snprintf(job->beside, bytes, "%.*s_ctx.onnx", (int)(dot != NULL ? dot - path : (ptrdiff_t)strlen(path)),
                   path);
    *out = job->beside;
    return NULL;
}

static OrtStatus *output_path(struct job *job, const char **out)
{
    *out = job->from->out_path;
    if (job->from->allocator != NULL || job->from->write != NULL) {
        ORT_TRY(make_folder(job));
        *out = job->out_file;
        return NULL;
    }
    if (*out == NULL)
        ORT_TRY(default_output(job, out));
    if ((job->from->flags & FLAG_ERROR_IF_OUTPUT_FILE_EXISTS) != 0 && access(*out, F_OK) == 0)
        return ort_fail(ORT_FAIL, "Output model file path '%s' exists already", *out);
    return NULL;
}

/* The name of the file for large initializers; it must be in the folder of the result. */
static OrtStatus *external_name(const struct job *job, const char *out_path, const char **out)
{
    const char *path = job->from->external_path;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL, *out_slash = strrchr(out_path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash + 1 - path) : 0;

    *out = slash != NULL ? slash + 1 : path;
    if (path == NULL)
        return NULL;
    if (job->from->allocator != NULL || job->from->write != NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "SetOutputModelExternalInitializersFile: the model is not written to a "
                                              "file");
    if (slash != NULL &&
        (out_slash == NULL || folder != (size_t)(out_slash + 1 - out_path) || memcmp(path, out_path, folder) != 0))
        return ort_fail(ORT_INVALID_ARGUMENT, "%s must be in the folder of %s", path, out_path);
    return NULL;
}

static OrtStatus *deliver(const struct job *job)
{
    const OrtModelCompilationOptions *to = job->from;
    OrtStatus *failed = NULL;
    size_t bytes;
    void *data;

    if (to->allocator == NULL && to->write == NULL)
        return NULL;
    ORT_TRY(ort_read_file(job->out_file, &data, &bytes));
    if (to->write != NULL) {
        failed = to->write(to->write_state, data, bytes);
    } else {
        *to->out_data = to->allocator->Alloc(to->allocator, bytes);
        if (*to->out_data != NULL) {
            memcpy(*to->out_data, data, bytes);
            *to->out_bytes = bytes;
        } else {
            failed = ort_no_memory();
        }
    }
    free(data);
    return failed;
}

/* Lets the program decide where the initializers of the written model are. */
static OrtStatus *relocate(const OrtModelCompilationOptions *to, const char *path)
{
    void *data, *changed = NULL;
    size_t bytes, changed_bytes = 0;
    OrtStatus *failed;

    ORT_TRY(ort_read_file(path, &data, &bytes));
    failed = ort_locations_apply(to->locate, to->locate_state, data, bytes, &changed, &changed_bytes);
    free(data);
    if (failed == NULL)
        failed = write_file(path, changed, changed_bytes);
    free(changed);
    return failed;
}

static OrtStatus *run_job(struct job *job)
{
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;
    const char *in;

    ORT_TRY(input_path(job, &in));
    ORT_TRY(output_path(job, &args.out_path));
    ORT_TRY(external_name(job, args.out_path, &args.external_file));
    if ((job->from->flags & FLAG_ERROR_IF_NO_NODES_COMPILED) != 0)
        return ort_fail(ORT_FAIL,
                        "Unable to compile any nodes: inlay keeps compiled regions in its cache, not in models");
    ORT_TRY(ort_session_optimize(job->from->options, job->from->level, in, &args));
    if (job->from->locate != NULL)
        ORT_TRY(relocate(job->from, args.out_path));
    return deliver(job);
}

OrtStatus *ort_CompileModel(const OrtEnv *env, const OrtModelCompilationOptions *model_options)
{
    struct job job = { .from = model_options };
    OrtStatus *failed;

    ORT_NEED(env);
    ORT_NEED(model_options);
    failed = run_job(&job);
    remove_folder(&job);
    free(job.beside);
    return failed;
}
