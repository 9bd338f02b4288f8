/* Sessions: creation from files and memory, and release. */
#include "custom.h"
#include "writer.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* State shared with the callbacks while a session is created. */
struct creation {
    const OrtSessionOptions *options;
    OrtSession *session;
    inlay_options *to;
};

static void forward_log(void *user, uint32_t level, const char *text)
{
    static const OrtLoggingLevel levels[] = { ORT_LOGGING_LEVEL_ERROR, ORT_LOGGING_LEVEL_WARNING,
                                              ORT_LOGGING_LEVEL_INFO, ORT_LOGGING_LEVEL_VERBOSE };

    ort_log(user, levels[level < 3 ? level : 3], text);
}

static int check_cancelled(void *user, double fraction, const char *what)
{
    struct creation *creation = user;

    (void)what, (void)fraction;
    return creation->options != NULL && __atomic_load_n(&creation->options->cancel_load, __ATOMIC_ACQUIRE) != 0;
}

static OrtStatus *set_text(struct creation *creation, const char *name, const char *value)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    return ort_from(inlay_options_set(creation->to, name, value, &diag), &diag);
}

static OrtStatus *set_number(struct creation *creation, const char *name, int64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return set_text(creation, name, text);
}

static bool is_option(const char *name)
{
    inlay_option_doc doc = { .struct_size = sizeof doc };

    for (uint32_t i = 0; inlay_options_describe(i, &doc) == INLAY_OK; i++)
        if (strcmp(doc.name, name) == 0)
            return true;
    return false;
}

/* The file for large initializers of the optimised model, and the size from which they are large. inlay has its own
 * limit. */
#define EXTERNAL_NAME "session.optimized_model_external_initializers_file_name"
#define EXTERNAL_MINIMUM "session.optimized_model_external_initializers_min_size_in_bytes"

/* Entries with the name of an option of inlay, with or without the prefix "inlay.", set that option. With the prefix, a
 * name that is no option is an error. */
static OrtStatus *set_entry(struct creation *creation, const char *key, const char *value)
{
    const char *name = strncmp(key, "inlay.", 6) == 0 ? key + 6 : key;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    char line[256];

    if (strcmp(key, EXTERNAL_NAME) == 0 || strcmp(key, EXTERNAL_MINIMUM) == 0)
        return NULL; /* of SetOptimizedModelFilePath */
    if (strcmp(key, "session.model_external_initializers_file_folder_path") == 0)
        return set_text(creation, "external_dir", value);
    if (name != key || is_option(name)) {
        status = inlay_options_set(creation->to, name, value, &diag);
        return status == INLAY_NOT_FOUND
                   ? ort_fail(ORT_INVALID_ARGUMENT, "the session config entry %.180s: %s", key, diag.text)
                   : ort_from(status, &diag);
    }
    (void)snprintf(line, sizeof line, "the session config entry %.180s has no counterpart in inlay and is ignored",
                   key);
    ort_log(&creation->session->logger, ORT_LOGGING_LEVEL_INFO, line);
    return NULL;
}

/* Selects the providers named by the program, and the reference provider for nodes that they do not support. After the
 * libraries of execution providers come the providers for CPUs, and nodes go to the first provider that supports them,
 * as in ONNX Runtime. */
static OrtStatus *use_providers(struct creation *creation, const OrtSessionOptions *from)
{
    const OrtKeyValuePairs *named = &from->providers, *settings = &from->settings;
    inlay_diag diag = INLAY_DIAG_INIT;
    char list[1024] = "", others[512] = "";
    bool has_library = false;
    size_t at = 0;

    if (named->count == 0)
        return NULL;
    for (size_t i = 0; i < named->count && at < sizeof list; i++)
        if (strcmp(named->keys[i], "reference") != 0) {
            has_library = has_library || strncmp(named->keys[i], ORT_EP_PROVIDER "#", sizeof ORT_EP_PROVIDER) == 0;
            at += (size_t)snprintf(list + at, sizeof list - at, "%s,", named->keys[i]);
        }
    if (has_library) {
        ORT_TRY(ort_from(inlay_options_get(creation->to, "providers", others, sizeof others, NULL, &diag), &diag));
        ORT_TRY(set_text(creation, "policy", "priority"));
    }
    if (others[0] == '\0')
        (void)snprintf(others, sizeof others, has_library ? "cpu?,reference" : "reference");
    if (at < sizeof list)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s", others);
    if (at >= sizeof list)
        return ort_fail(ORT_INVALID_ARGUMENT, "the names of the %zu execution providers have more than %zu bytes",
                        named->count, sizeof list - 1);
    ORT_TRY(set_text(creation, "providers", list));
    for (size_t i = 0; i < settings->count; i++)
        ORT_TRY(set_text(creation, settings->keys[i], settings->values[i]));
    return NULL;
}

/* Without providers the policy of the options chooses. */
static OrtStatus *set_providers(struct creation *creation)
{
    OrtSessionOptions chosen = { 0 };
    OrtStatus *failed;

    if (creation->options->providers.count > 0)
        return use_providers(creation, creation->options);
    failed = ort_libraries_choose(creation->options, &chosen);
    if (failed == NULL)
        failed = use_providers(creation, &chosen);
    ort_pairs_clear(&chosen.providers);
    ort_pairs_clear(&chosen.settings);
    return failed;
}

static OrtStatus *set_dims(struct creation *creation, const OrtKeyValuePairs *dims)
{
    char pair[512];

    for (size_t i = 0; i < dims->count; i++) { /* "?": the model may lack this dimension */
        int bytes = snprintf(pair, sizeof pair, "%s?=%s", dims->keys[i], dims->values[i]);

        if ((size_t)bytes >= sizeof pair)
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "AddFreeDimensionOverrideByName: the name %.40s... has %zu bytes; rename the dimension, "
                            "inlay takes fewer than %zu",
                            dims->keys[i], strlen(dims->keys[i]), sizeof pair - 32);
        ORT_TRY(set_text(creation, "dim", pair));
    }
    return NULL;
}

static OrtStatus *apply_options(struct creation *creation)
{
    const OrtSessionOptions *options = creation->options;
    int threads = options != NULL && options->intra_threads > 0 ? options->intra_threads : ort_env_threads();

    if (threads > 0)
        ORT_TRY(set_number(creation, "intra_threads", threads < 4096 ? threads : 4096));
    if (options == NULL)
        return NULL;
    if (options->level >= 0)
        ORT_TRY(set_number(creation, "level", options->level));
    if (options->reproducible)
        ORT_TRY(set_number(creation, "reproducible", 1));
    ORT_TRY(set_dims(creation, &options->dims));
    if (options->denotations.count > 0) {
        OrtKeyValuePairs dims = { 0 };
        OrtStatus *failed =
            ort_denoted_dims(&options->denotations, creation->session->bytes, creation->session->byte_count, &dims);

        if (failed == NULL)
            failed = set_dims(creation, &dims);
        ort_pairs_clear(&dims);
        if (failed != NULL)
            return failed;
    }
    ORT_TRY(set_providers(creation));
    ORT_TRY(ort_files_set(options, creation->to, &creation->session->files));
    for (size_t i = 0; i < options->entries.count; i++)
        ORT_TRY(set_entry(creation, options->entries.keys[i], options->entries.values[i]));
    return ort_custom_begin(options, creation->to, &creation->session->custom);
}

/* Files and environment variables come first, so that the program's options take precedence. */
static OrtStatus *make_options(struct creation *creation)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = inlay_options_create(&creation->to, &diag);
    const char *folder = creation->session->folder;

    if (status == INLAY_OK) {
        inlay_options_set_log(creation->to, forward_log, &creation->session->logger);
        inlay_options_set_progress(creation->to, check_cancelled, creation);
    }
    if (status == INLAY_OK) {
        status = inlay_options_load(creation->to, NULL, &diag);
    }
    if (status == INLAY_OK)
        status = inlay_options_load_environment(creation->to, &diag);
    if (status == INLAY_OK && folder != NULL)
        status = inlay_options_set(creation->to, "external_dir", folder, &diag);
    return status == INLAY_OK ? apply_options(creation) : ort_from(status, &diag);
}

static void make_logger(const OrtSessionOptions *options, OrtLogger *out)
{
    *out = *ort_default_logger();
    if (options == NULL)
        return;
    if (options->log_fn != NULL) {
        out->fn = options->log_fn;
        out->param = options->log_param;
    }
    if (options->log_level >= 0)
        out->level = options->log_level;
    if (options->log_id[0] != '\0')
        memcpy(out->id, options->log_id, sizeof out->id);
}

/* Converts a failure to ONNX Runtime's error code and text, which include the model's path. */
static OrtStatus *explain_failure(const char *path, inlay_status status, const inlay_diag *diag)
{
    char where[1100] = "";
    bool bytes_wrong;

    if (path != NULL)
        (void)snprintf(where, sizeof where, "Load model from %.1000s failed:", path);
    bytes_wrong = status == INLAY_INVALID_MODEL && diag->node[0] == '\0' && strstr(diag->text, "graph '") == NULL;
    if (bytes_wrong && path == NULL)
        return ort_fail(ORT_INVALID_PROTOBUF, "Failed to load model because protobuf parsing failed. %s", diag->text);
    if (status == INLAY_CANCELLED)
        return ort_fail(ORT_MODEL_LOAD_CANCELED, "%s%s", where, diag->text);
    if (bytes_wrong)
        return ort_fail(ORT_INVALID_PROTOBUF, "%sProtobuf parsing failed. %s", where, diag->text);
    if (status == INLAY_INVALID_MODEL)
        return ort_fail(ORT_INVALID_GRAPH, "%sThis is an invalid model. %s", where, diag->text);
    if (status == INLAY_UNSUPPORTED)
        return ort_fail(ORT_FAIL, "%s%s", where, diag->text);
    if (status == INLAY_NOT_FOUND && path != NULL)
        return ort_fail(ORT_NO_SUCHFILE, "%s%s", where, diag->text);
    return ort_from(status, diag);
}

static OrtStatus *sort_inputs(OrtSession *session)
{
    uint32_t count = inlay_session_input_count(session->session);

    session->inputs = calloc((size_t)count + 1, sizeof *session->inputs);
    session->overridable = calloc((size_t)count + 1, sizeof *session->overridable);
    if (session->inputs == NULL || session->overridable == NULL)
        return ort_no_memory();
    for (uint32_t i = 0; i < count; i++) {
        if (ort_input_info(session, i).optional != 0)
            session->overridable[session->overridable_count++] = i;
        else
            session->inputs[session->input_count++] = i;
    }
    INLAY_CHECK(session->input_count + session->overridable_count == count);
    session->output_count = inlay_session_output_count(session->session);
    return NULL;
}

static uint64_t now_ns(void)
{
    struct timespec timespec;

    (void)clock_gettime(CLOCK_MONOTONIC, &timespec);
    return (uint64_t)timespec.tv_sec * 1000000000u + (uint64_t)timespec.tv_nsec;
}

static OrtStatus *start_profile(OrtSession *session, const OrtSessionOptions *options)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    INLAY_CHECK(session->session != NULL && session->profiled == NULL);
    if (options == NULL || options->profile_prefix == NULL)
        return NULL;
    session->profile_start_ns = now_ns();
    if (!ort_set_text(&session->profile_prefix, options->profile_prefix))
        return ort_no_memory();
    status = inlay_context_create(session->session, &session->profiled, &diag);
    if (status == INLAY_OK)
        status = inlay_context_profile(session->profiled, 1, 0, &diag);
    return ort_from(status, &diag);
}

/* ONNX Runtime writes its own format if the entry requests it or, without the entry, if the name ends in .ort. */
static bool wants_ort_format(const OrtSessionOptions *options)
{
    const char *format = ort_pairs_get(&options->entries, "session.save_model_format");
    const size_t bytes = strlen(options->optimized_path);

    if (format != NULL && format[0] != '\0')
        return strcmp(format, "ONNX") != 0;
    return bytes >= 4 && strcmp(options->optimized_path + bytes - 4, ".ort") == 0;
}

static OrtStatus *save_optimized(const struct creation *creation, const char *path)
{
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (creation->options == NULL || creation->options->optimized_path == NULL)
        return NULL;
    if (wants_ort_format(creation->options))
        return ort_fail(
            ORT_NOT_IMPLEMENTED,
            "SetOptimizedModelFilePath: %s would have the ORT format, but inlay writes ONNX; use a file name that does "
            "not end in .ort, and do not set session.save_model_format",
            creation->options->optimized_path);
    args.out_path = creation->options->optimized_path;
    args.external_file = ort_pairs_get(&creation->options->entries, EXTERNAL_NAME);
    if (path == NULL) {
        args.data = creation->session->bytes;
        args.data_bytes = creation->session->byte_count;
    }
    return ort_from(inlay_optimize(path, creation->to, &args, &diag), &diag);
}

static OrtStatus *check_exists(const char *path)
{
    struct stat file;

    if (stat(path, &file) != 0 && errno == ENOENT)
        return ort_fail(ORT_NO_SUCHFILE, "Load model from %s failed:Load model %s failed. File doesn't exist", path,
                        path);
    return NULL;
}

/* Keeps a copy of data, because programs free it once the session exists. */
static OrtStatus *keep_bytes(OrtSession *session, const void *data, size_t bytes)
{
    session->bytes = malloc(bytes + 1);
    if (session->bytes == NULL)
        return ort_no_memory();
    if (bytes > 0)
        memcpy(session->bytes, data, bytes);
    session->byte_count = bytes;
    return NULL;
}

/* Keeps the contents of a file, and its folder for external data. */
static OrtStatus *keep_file(OrtSession *session, const char *path)
{
    const char *slash = strrchr(path, '/');

    ORT_TRY(check_exists(path));
    ORT_TRY(ort_read_file(path, &session->bytes, &session->byte_count));
    session->folder = slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    return session->folder != NULL ? NULL : ort_no_memory();
}

static bool records_assignment(const OrtSessionOptions *options)
{
    const char *value =
        options != NULL ? ort_pairs_get(&options->entries, "session.record_ep_graph_assignment_info") : NULL;

    return value != NULL && strcmp(value, "1") == 0;
}

/* Takes option placement, which by default depends on the logger: this library writes the line, so that it has the
 * level INFO. */
static OrtStatus *take_placement(struct creation *creation, bool *out_wanted)
{
    inlay_setting item = { .struct_size = sizeof item };

    for (uint32_t i = 0; inlay_options_setting(creation->to, i, &item) == INLAY_OK; i++)
        if (strcmp(item.name, "placement") == 0)
            *out_wanted = item.source == INLAY_SOURCE_DEFAULT
                              ? creation->session->logger.level <= ORT_LOGGING_LEVEL_INFO
                              : strcmp(item.text, "1") == 0;
    return set_text(creation, "placement", "0");
}

static void append_text(void *user, const char *text, size_t bytes)
{
    ort_put(user, text, bytes);
}

/* Logs who runs how many nodes, also if the logger's level excludes messages of level INFO. */
static void log_placement(const OrtSession *session)
{
    const inlay_explain_options one = { .struct_size = sizeof one, .format = "line" };
    OrtLogger logger = session->logger;
    inlay_diag diag = INLAY_DIAG_INIT;
    ort_writer line = { 0 };
    const inlay_status status = inlay_session_explain(session->session, &one, append_text, &line, &diag);

    if (line.count > 0 && !line.failed)
        line.data[line.count - 1] = '\0'; /* the line feed */
    logger.level = ORT_LOGGING_LEVEL_VERBOSE;
    ort_log(&logger, ORT_LOGGING_LEVEL_INFO,
            status != INLAY_OK               ? diag.text
            : line.count == 0 || line.failed ? "option placement: out of memory"
                                             : (const char *)line.data);
    free(line.data);
}

/* Loads from path, or from session->bytes. */
static OrtStatus *make_session(struct creation *creation, const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    OrtSession *session = creation->session;
    bool logs_placement = false;
    inlay_status status;

    INLAY_CHECK((path == NULL) == (session->bytes != NULL));
    make_logger(creation->options, &session->logger);
    session->records_assignment = records_assignment(creation->options);
    ORT_TRY(make_options(creation));
    ORT_TRY(take_placement(creation, &logs_placement));
    if (path != NULL)
        ORT_TRY(check_exists(path));
    if (path != NULL && !ort_set_text(&session->path, path))
        return ort_no_memory();
    if (path != NULL)
        status = inlay_session_create(path, creation->to, &session->session, &diag);
    else
        status = inlay_session_create_from_bytes(session->bytes, session->byte_count, creation->to, &session->session,
                                                 &diag);
    if (status != INLAY_OK)
        return explain_failure(path, status, &diag);
    if (logs_placement)
        log_placement(session);
    ORT_TRY(sort_inputs(session));
    ORT_TRY(save_optimized(creation, path));
    return start_profile(session, creation->options);
}

/* The session of a model at path, or of the bytes that it keeps. */
static OrtStatus *load(OrtSession *session, const OrtSessionOptions *options, const char *path)
{
    struct creation creation = { .options = options, .session = session };
    const bool replaces = ort_initializers_given(options);
    const ort_custom *outer; /* operators of the session whose creation called the program; NULL: none */
    OrtStatus *failed;

    if (path != NULL && (replaces || (options != NULL && options->denotations.count > 0))) {
        ORT_TRY(keep_file(session, path));
        path = NULL;
    }
    if (replaces)
        ORT_TRY(ort_initializers_apply(options, &session->bytes, &session->byte_count));
    outer = ort_custom_creating(NULL);
    failed = make_session(&creation, path);
    (void)ort_custom_creating(outer);
    inlay_options_destroy(creation.to);
    return failed;
}

static void clear_session(OrtSession *session)
{
    if (session->profiled != NULL) { /* profiling was not ended: write the file as ONNX Runtime does */
        char *name = NULL;

        ort_ReleaseStatus(ort_end_profiling(session, ort_allocator(), &name));
        free(name);
    }
    for (uint32_t i = 0; i < session->idle_count; i++)
        inlay_context_destroy(session->idle[i]);
    inlay_session_destroy(session->session);
    ort_custom_end(session->custom);
    ort_assignment_free(session);
    (void)pthread_mutex_destroy(&session->lock);
    free(session->profile_prefix);
    free(session->inputs);
    free(session->overridable);
    free(session->bytes);
    free(session->files);
    free(session->folder);
    free(session->path);
    session->session = NULL;
    session->inputs = session->overridable = NULL;
    session->input_count = session->overridable_count = session->output_count = session->idle_count = 0;
    session->bytes = session->files = session->folder = session->path = session->profile_prefix = NULL;
}

static OrtStatus *new_session(OrtSession **out)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return ort_no_memory();
    (void)pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->clear = clear_session;
    return NULL;
}

/* Returns the session, or releases it if its creation failed. */
static OrtStatus *give(OrtSession *session, OrtStatus *failed, OrtSession **out)
{
    if (failed != NULL)
        ort_ReleaseSession(session);
    else
        *out = session;
    return failed;
}

OrtStatus *ort_session_from_bytes(const OrtSessionOptions *options, void *data, size_t bytes, OrtSession **out)
{
    OrtSession *session;
    OrtStatus *failed = new_session(&session);

    if (failed != NULL) {
        free(data);
        return failed;
    }
    session->bytes = data;
    session->byte_count = bytes;
    return give(session, load(session, options, NULL), out);
}

OrtStatus *ort_session_optimize(const OrtSessionOptions *options, int level, const char *path,
                                inlay_optimize_args *args)
{
    struct creation creation = { .options = options };
    inlay_diag diag = INLAY_DIAG_INIT;
    OrtStatus *failed;

    ORT_TRY(new_session(&creation.session)); /* holds the logger and the custom operators */
    make_logger(options, &creation.session->logger);
    failed = check_exists(path);
    if (failed == NULL)
        failed = make_options(&creation);
    if (failed == NULL)
        failed = set_number(&creation, "level", level);
    if (failed == NULL) {
        inlay_status status = inlay_optimize(path, creation.to, args, &diag);

        failed = status != INLAY_OK ? explain_failure(path, status, &diag) : NULL;
    }
    inlay_options_destroy(creation.to);
    ort_ReleaseSession(creation.session);
    return failed;
}

OrtStatus *ort_CreateSession(const OrtEnv *env, const char *model_path, const OrtSessionOptions *options,
                             OrtSession **out)
{
    OrtSession *session;

    ORT_NEED(env);
    ORT_NEED(model_path);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(new_session(&session));
    return give(session, load(session, options, model_path), out);
}

OrtStatus *ort_CreateSessionFromArray(const OrtEnv *env, const void *model_data, size_t model_data_length,
                                      const OrtSessionOptions *options, OrtSession **out)
{
    OrtSession *session;
    OrtStatus *failed;

    ORT_NEED(env);
    ORT_NEED(out);
    *out = NULL;
    if (model_data == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "Model data pointer is null.");
    ORT_TRY(new_session(&session));
    failed = keep_bytes(session, model_data, model_data_length);
    return give(session, failed != NULL ? failed : load(session, options, NULL), out);
}

OrtStatus *ort_CreateSessionWithPrepackedWeightsContainer(const OrtEnv *env, const char *model_path,
                                                          const OrtSessionOptions *options,
                                                          OrtPrepackedWeightsContainer *prepacked_weights_container,
                                                          OrtSession **out)
{
    (void)prepacked_weights_container; /* sessions share packed weights through the cache folder */
    return ort_CreateSession(env, model_path, options, out);
}

OrtStatus *ort_CreateSessionFromArrayWithPrepackedWeightsContainer(
    const OrtEnv *env, const void *model_data, size_t model_data_length, const OrtSessionOptions *options,
    OrtPrepackedWeightsContainer *prepacked_weights_container, OrtSession **out)
{
    (void)prepacked_weights_container;
    return ort_CreateSessionFromArray(env, model_data, model_data_length, options, out);
}

OrtStatus *ort_CreateSessionFromModel(const OrtEnv *env, const OrtModel *model, const OrtSessionOptions *options,
                                      OrtSession **out)
{
    void *data;
    size_t bytes;

    ORT_NEED(env);
    ORT_NEED(model);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(ort_model_write(model, &data, &bytes));
    return ort_session_from_bytes(options, data, bytes, out);
}

OrtStatus *ort_CreateModelEditorSession(const OrtEnv *env, const char *model_path, const OrtSessionOptions *options,
                                        OrtSession **out)
{
    OrtSession *session;

    (void)options; /* those of FinalizeModelEditorSession apply */
    ORT_NEED(env);
    ORT_NEED(model_path);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(new_session(&session));
    return give(session, keep_file(session, model_path), out);
}

OrtStatus *ort_CreateModelEditorSessionFromArray(const OrtEnv *env, const void *model_data, size_t model_data_length,
                                                 const OrtSessionOptions *options, OrtSession **out)
{
    OrtSession *session;

    (void)options;
    ORT_NEED(env);
    ORT_NEED(model_data);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(new_session(&session));
    return give(session, keep_bytes(session, model_data, model_data_length), out);
}

static OrtStatus *check_editing(const OrtSession *session)
{
    ORT_NEED(session);
    if (session->session != NULL)
        return ort_fail(ORT_MODEL_LOADED, "This session has already been initialized.");
    return NULL;
}

OrtStatus *ort_ApplyModelToModelEditorSession(OrtSession *session, OrtModel *model)
{
    void *data;
    size_t bytes;

    ORT_TRY(check_editing(session));
    ORT_NEED(model);
    ORT_TRY(ort_model_extend(model, session->bytes, session->byte_count, &data, &bytes));
    free(session->bytes);
    session->bytes = data;
    session->byte_count = bytes;
    return NULL;
}

OrtStatus *ort_FinalizeModelEditorSession(OrtSession *session, const OrtSessionOptions *options,
                                          OrtPrepackedWeightsContainer *prepacked_weights_container)
{
    OrtStatus *failed;

    (void)prepacked_weights_container;
    ORT_TRY(check_editing(session));
    failed = load(session, options, NULL);
    if (failed != NULL) { /* the program may apply another model and try again */
        inlay_session_destroy(session->session);
        ort_custom_end(session->custom);
        free(session->inputs);
        free(session->overridable);
        session->session = NULL;
        session->custom = NULL;
        session->inputs = session->overridable = NULL;
        session->input_count = session->overridable_count = 0;
    }
    return failed;
}
