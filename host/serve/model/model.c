#include "serve/model/ensemble.h"
#include "serve/model/files.h"
#include "inlay/check.h"
#include "serve/base/load_note.h"
#include "serve/base/log.h"
#include "codecs/datatype.h"
#include "serve/model/sequence.h"
#include "serve/model/speech.h"
#include "serve/model/text.h"
#include "texts/model/images.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHOSEN_BATCH = 4 }; /* max_batch of models that gain by batches, if no setting says otherwise */

/* The number of inputs that requests may have: all but those of options image_rows and last_logits, the last ones. */
static uint32_t request_inputs(const inlay_session *session)
{
    static const char *const own[] = { "last_logits", "image_shifts", "image_rows" };
    uint32_t count = inlay_session_input_count(session);

    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const uint32_t input = inlay_session_find_input(session, own[i]);
        inlay_io_info info = { .struct_size = sizeof info };

        if (input != INLAY_NONE && input + 1 == count && inlay_session_input(session, input, &info) == INLAY_OK &&
            info.optional)
            count = input;
    }
    return count;
}

static inlay_status read_io(struct model *model, inlay_diag *diag)
{
    model->io.input_count = request_inputs(model->session);
    model->io.output_count = inlay_session_output_count(model->session);
    model->io.inputs = calloc(model->io.input_count + 1u, sizeof *model->io.inputs);
    model->io.outputs = calloc(model->io.output_count + 1u, sizeof *model->io.outputs);
    if (model->io.inputs == NULL || model->io.outputs == NULL)
        return no_memory(diag, "for the model's inputs");
    for (uint32_t i = 0; i < model->io.input_count; i++) {
        model->io.inputs[i].struct_size = sizeof *model->io.inputs;
        (void)inlay_session_input(model->session, i, &model->io.inputs[i]);
        if (model->io.inputs[i].kind != INLAY_KIND_TENSOR || datatype_name(model->io.inputs[i].dtype) == NULL)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "input '%s' is not a tensor of a type that the protocol has",
                              model->io.inputs[i].name);
    }
    for (uint32_t i = 0; i < model->io.output_count; i++) {
        model->io.outputs[i].struct_size = sizeof *model->io.outputs;
        (void)inlay_session_output(model->session, i, &model->io.outputs[i]);
    }
    return INLAY_OK;
}

/* The name of a symbolic first axis, or NULL. */
static const char *symbolic_axis(const inlay_io_info *io)
{
    if (io->kind != INLAY_KIND_TENSOR || io->rank == INLAY_RANK_UNKNOWN || io->rank == 0 || io->dims[0] != -1 ||
        io->dim_names[0][0] == '\0')
        return NULL;
    return io->dim_names[0];
}

static bool is_batchable(const struct model *model)
{
    const char *axis = model->io.input_count > 0 ? symbolic_axis(&model->io.inputs[0]) : NULL;

    for (uint32_t i = 0; axis != NULL && i < model->io.input_count + model->io.output_count; i++) {
        const char *other = symbolic_axis(i < model->io.input_count ? &model->io.inputs[i]
                                                                    : &model->io.outputs[i - model->io.input_count]);
        if (other == NULL || strcmp(other, axis) != 0)
            axis = NULL;
    }
    return axis != NULL && model->io.output_count > 0;
}

/* Whether the server may choose max_batch, if no setting does: the check of the rows needs inputs of known sizes that
 * it can make, and requests of states and texts are not batched here. */
static bool may_choose_batch(const struct model *model)
{
    bool may = model->batchable && model->settings.warmup && model->states.count == 0 && model->text == NULL &&
               model->io.files == NULL;

    for (uint32_t i = 0; may && i < model->io.input_count; i++) {
        may = !model->io.inputs[i].optional && model->io.inputs[i].dtype != INLAY_STRING;
        for (uint32_t axis = 1; may && axis < model->io.inputs[i].rank; axis++)
            may = model->io.inputs[i].dims[axis] >= 0;
    }
    return may;
}

static inlay_status make_instances(struct model *model, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    model->pool.all = calloc(model->settings.instances, sizeof *model->pool.all);
    model->metrics.batches = calloc(model->settings.max_batch, sizeof *model->metrics.batches);
    if (model->pool.all == NULL || model->metrics.batches == NULL)
        return no_memory(diag, "for %u instances", model->settings.instances);
    for (uint32_t i = model->settings.instances; status == INLAY_OK && i-- > 0;) {
        struct instance *instance = &model->pool.all[i];

        instance->next = model->pool.idle;
        model->pool.idle = instance;
        status = instance_init(model, instance, model->settings.max_batch, diag);
    }
    return status;
}

/* Size of the first axis of a batchable model, and of the padded axis. */
typedef struct warm_size {
    int64_t rows, length;
} warm_size;

/* Creates a tensor of zeros or of empty texts. */
static inlay_status warm_input(const struct model *model, uint32_t k, const void *user, inlay_value **out_value,
                               inlay_diag *diag)
{
    const warm_size *size = user;
    const inlay_io_info *io = &model->io.inputs[k];
    int64_t dims[INLAY_MAX_RANK];
    inlay_str *texts = NULL;
    uint32_t rank;
    uint64_t count;
    inlay_status status;

    *out_value = NULL;
    if (io->optional)
        return INLAY_OK;
    rank = model_generated_dims(model, k, size->rows, size->length, dims);
    if (io->dtype != INLAY_STRING)
        return inlay_value_create(io->dtype, rank, dims, out_value, diag);
    if (!infer_count(rank, dims, &count) || (texts = calloc(count + 1, sizeof *texts)) == NULL)
        return no_memory(diag, "to warm up");
    for (uint64_t i = 0; i < count; i++)
        texts[i] = files_is_list(io) ? files_example : (inlay_str){ "", 0 };
    status = inlay_value_create_strings(rank, dims, texts, out_value, diag);
    free(texts);
    return status;
}

static inlay_status warm_up(const struct model *model, struct instance *instance, int64_t rows, int64_t length)
{
    const warm_size size = { rows, length };

    return instance_run_generated(model, instance, warm_input, &size, NULL);
}

/* Whether the measured batches are used without a setting: they must gain an eighth, with equal results. */
static bool is_worth(const struct model *model, struct instance *instance)
{
    const batch_cost *cost = &model->queue.cost;

    return batch_cost_is_worth(cost) && batch_cost_gain(cost) >= cost->ns[0] / 8 &&
           row_check(model, instance, model->settings.max_batch);
}

/* Times runs of 1, 2, 4 ... rows, up to four times the best batch size, in a context that is not kept: it has memory
 * for more rows than batches will have. No size is the best if the server chooses max_batch and batches are not worth
 * it. */
static void measure_batches(struct model *model, int64_t length)
{
    enum { TIMES = 3, LONG_RUN_NS = 10000000 }; /* longer runs would delay the load, and gain less */
    batch_cost *cost = &model->queue.cost;
    struct instance instance = { .context = NULL };
    bool good = instance_init(model, &instance, 1, NULL) == INLAY_OK;

    if (model->settings.chooses_batch) /* requests meet while all runs are active */
        instance.threads = model->settings.busy_threads;
    for (uint32_t rows = 1; good && rows <= model->settings.max_batch && (rows == 1 || cost->best * 4 >= rows);
         rows *= 2) {
        good = !(model->settings.chooses_batch && cost->ns[0] > LONG_RUN_NS) &&
               warm_up(model, &instance, rows, length) == INLAY_OK;
        for (uint32_t k = 0; good && k < TIMES; k++) {
            uint64_t start = clock_ns();

            if (warm_up(model, &instance, rows, length) == INLAY_OK)
                batch_cost_add(cost, rows, (double)(clock_ns() - start));
        }
    }
    if (model->settings.chooses_batch && !is_worth(model, &instance))
        *cost = (batch_cost){ .best = 0 };
    instance_deinit(model, &instance);
}

/* The first run at a shape builds its plan, so do it before requests wait: for one row, and for a batch where batches
 * take less time per row. Failures are ignored: zeros may be invalid.
 */
static void warm_all(struct model *model)
{
    const padding_config *config = &model->settings.padding;
    int64_t length = config->size_count > 0 ? (int64_t)config->sizes[0] : 1;

    for (uint32_t i = 0; i < model->settings.instances; i++) {
        struct instance *instance = &model->pool.all[i];

        if (warm_up(model, instance, 1, length) != INLAY_OK)
            return;
        if (i == 0 && model->settings.max_batch > 1)
            measure_batches(model, length);
        if (model->queue.cost.best > 1 && warm_up(model, instance, model->queue.cost.best, length) != INLAY_OK)
            return;
        for (uint32_t k = 1; k < config->size_count; k++)
            if (warm_up(model, instance, 1, (int64_t)config->sizes[k]) != INLAY_OK)
                return;
    }
}

/* The files of a folder, and of the folders in it if `deep`. */
static uint64_t folder_bytes(const char *path, bool deep)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    uint64_t bytes = 0;
    char inner[4600];
    struct stat st;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) != 0)
            continue;
        if (S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
        if (!S_ISDIR(st.st_mode) || !deep || entry->d_name[0] == '.')
            continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        bytes += folder_bytes(inner, false);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return bytes;
}

uint64_t model_file_bytes(const char *path, bool whole_folder)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    char folder[4200];

    if (whole_folder && slash != NULL) {
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        return folder_bytes(folder, false);
    }
    if (stat(path, &st) != 0)
        return 0;
    return S_ISDIR(st.st_mode) ? folder_bytes(path, true) : (uint64_t)st.st_size;
}

uint64_t model_run_bytes(struct model *model)
{
    struct model *const parts[] = { model->decoding.draft, model->speech.decoder, model->speech.past };
    inlay_memory_info info = { .struct_size = sizeof info };
    uint64_t bytes = 0;

    if (model->session != NULL && inlay_session_memory(model->session, &info) == INLAY_OK)
        bytes += info.used_bytes;
    for (uint32_t i = 0; i < model->settings.instances; i++)
        bytes += atomic_load_explicit(&model->pool.all[i].buffer_bytes, memory_order_relaxed);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        bytes += parts[i] != NULL ? model_run_bytes(parts[i]) : 0;
    if (model->vision.session != NULL && inlay_session_memory(model->vision.session, &info) == INLAY_OK)
        bytes += info.used_bytes;
    return bytes + sequences_buffer_bytes(model);
}

uint64_t model_bytes(struct model *model)
{
    const struct model *const parts[] = { model->decoding.draft, model->speech.decoder, model->speech.past };
    uint64_t bytes = model->file.bytes + model->vision.bytes + model_run_bytes(model);

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        bytes += parts[i] != NULL ? parts[i]->file.bytes : 0;
    return bytes;
}

uint32_t model_purposes(const struct model *model)
{
    return text_model_purposes(model->text) | (model->speech.model != NULL ? TEXT_TRANSCRIBES : 0u);
}

/* Another thread may have a newer or an older count. */
static void count_watched(struct model *model, uint32_t result, uint64_t now)
{
    const uint64_t before = atomic_exchange_explicit(&model->metrics.watched[result], now, memory_order_relaxed);

    if (now != before)
        (void)atomic_fetch_add_explicit(&model->metrics.stats->watchdog[result], now - before, memory_order_relaxed);
}

void model_count_watchdog(struct model *model)
{
    inlay_watchdog_info info = { .struct_size = sizeof info };

    if (model->session == NULL || inlay_session_watchdog(model->session, 0, &info) != INLAY_OK)
        return;
    count_watched(model, WATCHDOG_RIGHT, info.checked - info.wrong);
    count_watched(model, WATCHDOG_WRONG, info.wrong);
    count_watched(model, WATCHDOG_DROPPED, info.dropped);
    count_watched(model, WATCHDOG_SKIPPED, info.skipped);
}

/* A model without session, instances and inputs. */
static inlay_status model_create(const char *name, uint64_t version, const char *path, const model_settings *settings,
                                 struct model **out_model, inlay_diag *diag)
{
    struct model *model = calloc(1, sizeof *model);

    *out_model = model;
    if (model == NULL)
        return no_memory(diag, "for model '%s'", name);
    atomic_init(&model->refs, 1);
    (void)pthread_mutex_init(&model->states.lock, NULL);
    model->settings = *settings;
    model->number = version;
    (void)snprintf(model->version, sizeof model->version, "%llu", (unsigned long long)version);
    model->name = strdup(name);
    model->file.path = strdup(path);
    return model->name != NULL && model->file.path != NULL ? INLAY_OK : no_memory(diag, "for model '%s'", name);
}

/* Adds the model to the metrics. */
static inlay_status count_model(struct model *model, inlay_diag *diag)
{
    inlay_status status =
        board_add_model(model->settings.board, model->name, model->number, &model->metrics.board_index, diag);

    if (status == INLAY_OK)
        model->metrics.stats = &board_own_model(model->settings.board, model->metrics.board_index)->stats;
    return status;
}

/* Opens what the model needs to generate texts, if it is a model for texts. */
static inlay_status open_text(struct model *model, inlay_diag *diag)
{
    const text_source source = text_source_of(model);
    const inlay_status status = text_model_open(&source, &model->text, diag);
    char why[200];

    if (status == INLAY_OK && model->text == NULL && text_model_lacks_tokenizer(&source)) {
        text_model_explain(&source, why, sizeof why);
        log_line(LOG_WARNING_LINE, "model '%s', version %s: %s", model->name, model->version, why);
    }
    if (status != INLAY_OK || model->text == NULL)
        return status;
    if (model->text->decode.has_states && model->states.sequences == NULL) { /* max_sequences is 0 */
        text_model_close(model->text);
        model->text = NULL;
        return INLAY_OK;
    }
    if (model->text->assumes_chat_ml)
        log_line(LOG_WARNING_LINE,
                 "model '%s': the file has no chat template; chats have the form ChatML, unless a file "
                 "chat_template.jinja is beside it",
                 model->name);
    if (model->text->generation.warning != NULL)
        log_line(LOG_WARNING_LINE, "model '%s', version %s: %s", model->name, model->version,
                 model->text->generation.warning);
    if (model->settings.max_prompt_bytes > 0)
        model->text->most_bytes = model->settings.max_prompt_bytes;
    return INLAY_OK;
}

/* Finds out how texts can share the model's runs. A model that cannot be run for texts alone has no completions. */
static inlay_status find_rows(struct model *model, inlay_diag *diag)
{
    static const char *const layouts[] = { [INLAY_ROWS_ALONE] = "each text in separate runs",
                                           [INLAY_ROWS_LEFT] = "texts share runs, padded at their beginnings",
                                           [INLAY_ROWS_RIGHT] = "texts share runs, padded at their ends" };
    decode_model *decode = &model->text->decode;
    inlay_status status = text_model_find_rows(model->text, model->settings.stop, diag);

    if (status == INLAY_OK) {
        log_line(LOG_INFO_LINE, "model '%s', version %s: %s; prompts are read %s", model->name, model->version,
                 layouts[decode->rows.layout], decode->rows.in_parts ? "in parts" : "at once");
    } else if (status == INLAY_UNSUPPORTED) {
        log_line(LOG_INFO_LINE, "model '%s', version %s: no completions: %s", model->name, model->version, diag->text);
        decode->logits = INLAY_NONE;
        *diag = (inlay_diag)INLAY_DIAG_INIT;
        status = INLAY_OK;
    }
    return status;
}

inlay_status model_load(const char *name, uint64_t version, const char *path, const model_settings *settings,
                        const inlay_options *options, struct wire *made, struct model **out_model, inlay_diag *diag)
{
    struct model *model = NULL;
    inlay_status status = INLAY_OK;

    *out_model = NULL;
    INLAY_TRY(model_create(name, version, path, settings, &model, diag));
    INLAY_TRY(count_model(model, diag));
    if (made != NULL && made->count > 0) {
        model->made = *made;
        *made = (struct wire){ 0 };
        INLAY_TRY(
            inlay_session_create_from_bytes(model->made.bytes, model->made.count, options, &model->session, diag));
    } else {
        INLAY_TRY(inlay_session_create(path, options, &model->session, diag));
    }
    INLAY_TRY(read_io(model, diag));
    INLAY_TRY(files_describe(model, diag));
    INLAY_TRY(sequences_create(model, diag));
    INLAY_TRY(open_text(model, diag));
    model->batchable = is_batchable(model);
    if (!model->batchable)
        model->settings.max_batch = 1;
    if (model->settings.max_batch == 0) {
        model->settings.chooses_batch = may_choose_batch(model);
        model->settings.max_batch = model->settings.chooses_batch ? CHOSEN_BATCH : 1;
    }
    INLAY_TRY(padding_init(model, diag));
    load_note_step("its first runs", 0);
    INLAY_TRY(make_instances(model, diag));
    INLAY_TRY(padding_check(model, &model->pool.all[0], diag));
    if (model->text != NULL && model->text->decode.logits != INLAY_NONE)
        INLAY_TRY(find_rows(model, diag));
    if (model->settings.warmup)
        warm_all(model);
    if (model->settings.chooses_batch && model->queue.cost.best <= 1)
        model->settings.max_batch = 1;
    else if (model->settings.chooses_batch)
        log_line(LOG_INFO_LINE, "model '%s', version %s: up to %u rows of waiting requests share a run", model->name,
                 model->version, model->settings.max_batch);
    model->providers.shares = shares_read(model->session, &model->providers.share_count);
    model->providers.lost = shares_lost(model->session, &model->providers.lacks_for_all);
    *out_model = model;
    model = NULL;
done:
    model_unref(model);
    return status;
}

inlay_status model_load_ensemble(const char *name, uint64_t version, const char *path, const model_settings *settings,
                                 struct ensemble *ensemble, struct model **out_model, inlay_diag *diag)
{
    struct model *model = NULL;
    inlay_status status = model_create(name, version, path, settings, &model, diag);

    *out_model = NULL;
    if (model == NULL) {
        ensemble_destroy(ensemble);
        return status;
    }
    model->ensemble = ensemble;
    INLAY_TRY(status);
    INLAY_TRY(count_model(model, diag));
    model->io.inputs = ensemble->inputs;
    model->io.input_count = ensemble->input_count;
    model->io.outputs = ensemble->outputs;
    model->io.output_count = ensemble->output_count;
    model->batchable = ensemble->batchable;
    ensemble->inputs = ensemble->outputs = NULL;
    INLAY_TRY(sequences_create(model, diag));
    if (!model->batchable || model->settings.max_batch == 0)
        model->settings.max_batch = 1;
    INLAY_TRY(make_instances(model, diag));
    if (model->settings.warmup)
        warm_all(model);
    *out_model = model;
    model = NULL;
done:
    model_unref(model);
    return status;
}

struct model *model_ref(struct model *model)
{
    unsigned before = atomic_fetch_add(&model->refs, 1);

    INLAY_CHECK(before > 0);
    (void)before;
    return model;
}

void ensemble_destroy(struct ensemble *ensemble)
{
    if (ensemble == NULL)
        return;
    for (uint32_t i = 0; i < ensemble->stage_count; i++) {
        free(ensemble->stages[i].inputs);
        free(ensemble->stages[i].outputs);
        (void)atomic_fetch_sub(&ensemble->stages[i].model->pins, 1);
        model_unref(ensemble->stages[i].model);
    }
    for (uint32_t i = 0; i < ensemble->tensor_count; i++)
        free(ensemble->names[i]);
    free(ensemble->stages);
    free(ensemble->names);
    free(ensemble->output_tensors);
    free(ensemble->inputs);
    free(ensemble->outputs);
    free(ensemble);
}

void model_unref(struct model *model)
{
    if (model == NULL || atomic_fetch_sub(&model->refs, 1) != 1)
        return;
    INLAY_CHECK(model->queue.count == 0 && model->queue.held == 0);
    for (uint32_t i = 0; model->pool.all != NULL && i < model->settings.instances; i++)
        instance_deinit(model, &model->pool.all[i]);
    padding_deinit(&model->padding);
    text_model_close(model->text);
    speech_model_close(model->speech.model);
    model_unref(model->speech.decoder);
    model_unref(model->speech.past);
    model_unref(model->decoding.draft);
    image_encoder_destroy(model->vision.encoder);
    inlay_session_destroy(model->vision.session);
    sequences_destroy(model);
    ensemble_destroy(model->ensemble);
    inlay_session_destroy(model->session);
    wire_deinit(&model->made);
    free(model->pool.all);
    free(model->metrics.batches);
    if (model->metrics.stats != NULL)
        board_remove_model(model->settings.board, model->metrics.board_index);
    if (model->config != NULL)
        protobuf_c_message_free_unpacked(model->config, NULL);
    for (uint32_t i = 0; i < model->decoding.adapter_count; i++)
        free(model->decoding.adapters[i]);
    free(model->decoding.adapters);
    free(model->providers.shares);
    free(model->providers.lost);
    free(model->io.files);
    free(model->io.inputs);
    free(model->io.outputs);
    free(model->name);
    free(model->file.path);
    free(model);
}

static void format_shape(char *text, size_t bytes, uint32_t rank, const int64_t *dims)
{
    size_t used = (size_t)snprintf(text, bytes, "[");

    for (uint32_t i = 0; i < rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
    if (used < bytes)
        (void)snprintf(text + used, bytes - used, "]");
}

uint32_t model_find_io(const inlay_io_info *ios, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(ios[i].name, name) == 0)
            return i;
    return INLAY_NONE;
}

/* The names of the model's inputs, cut to fit. */
static const char *input_names(const struct model *model, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < model->io.input_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", model->io.inputs[i].name);
    return text;
}

static inlay_status check_input(const struct model *model, infer_request *request, infer_tensor *tensor,
                                inlay_diag *diag)
{
    const inlay_io_info *io;
    char wanted[200], given[200];
    inlay_status status;
    bool fits;

    tensor->input = model_find_io(model->io.inputs, model->io.input_count, tensor->name);
    if (tensor->input == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "model '%s' has no input '%s'; it has %s", model->name,
                          tensor->name, input_names(model, wanted, sizeof wanted));
    io = &model->io.inputs[tensor->input];
    if (files_is_list(io)) {
        status = files_take(tensor, diag);
        if (status != INLAY_OK)
            return status;
        if (!model->batchable && tensor->count > 1)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "input '%s' has %llu files, but model '%s' takes one: its outputs have no row for each",
                              tensor->name, (unsigned long long)tensor->count, model->name);
    }
    status = io->dtype != tensor->dtype ? infer_convert(request, tensor, io->dtype, diag) : INLAY_OK;
    if (status != INLAY_OK)
        return status;
    if (io->rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    fits = io->rank == tensor->rank;
    for (uint32_t axis = 0; fits && axis < tensor->rank; axis++)
        fits = io->dims[axis] < 0 || io->dims[axis] == tensor->dims[axis];
    if (fits)
        return INLAY_OK;
    format_shape(wanted, sizeof wanted, io->rank, io->dims);
    format_shape(given, sizeof given, tensor->rank, tensor->dims);
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input '%s' has shape %s, but the model expects %s%s", tensor->name,
                      given, wanted, strstr(wanted, "-1") != NULL ? " (-1: any size)" : "");
}

static inlay_status check_outputs(const struct model *model, infer_request *request, inlay_diag *diag)
{
    for (uint32_t i = 0; i < request->output_count; i++) {
        request->outputs[i].output = model_find_io(model->io.outputs, model->io.output_count, request->outputs[i].name);
        if (request->outputs[i].output == INLAY_NONE)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "model '%s' has no output '%s'", model->name,
                              request->outputs[i].name);
    }
    return INLAY_OK;
}

/* Whether the request must have the input. */
static bool is_needed(const struct job *job, uint32_t input)
{
    const struct model *model = job->model;

    return !model->io.inputs[input].optional && !(model->states.inputs[input] && job->request->sequence[0] != '\0');
}

inlay_status model_check(struct job *job, inlay_diag *diag)
{
    const struct model *model = job->model;
    infer_request *request = job->request;
    uint64_t given = 0;

    job->size.bytes = 0;
    for (uint32_t i = 0; i < request->input_count; i++) {
        inlay_status status = check_input(model, request, &request->inputs[i], diag);

        if (status != INLAY_OK)
            return status;
        given += is_needed(job, request->inputs[i].input);
        job->size.bytes += request->inputs[i].bytes;
    }
    for (uint32_t k = 0; k < model->io.input_count; k++)
        given -= is_needed(job, k);
    for (uint32_t k = 0, i; given != 0 && k < model->io.input_count; k++) {
        for (i = 0; i < request->input_count && request->inputs[i].input != k; i++)
            ;
        if (i == request->input_count && is_needed(job, k))
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT, "input '%s' is missing%s", model->io.inputs[k].name,
                model->states.inputs[k]
                    ? "; it is a state, which the server keeps for requests with the parameter sequence_id"
                    : "");
    }
    job->size.rows = model->batchable && request->input_count > 0 ? (uint64_t)request->inputs[0].dims[0] : 1;
    for (uint32_t i = 0; model->batchable && i < request->input_count; i++)
        if ((uint64_t)request->inputs[i].dims[0] != job->size.rows)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input '%s' has %lld rows, but input '%s' has %llu",
                              request->inputs[i].name, (long long)request->inputs[i].dims[0], request->inputs[0].name,
                              (unsigned long long)job->size.rows);
    padding_choose(job);
    job->level = request->priority == 0                ? model->settings.priority
                 : request->priority > PRIORITY_LEVELS ? PRIORITY_LEVELS
                                                       : (uint32_t)request->priority;
    if (check_outputs(model, request, diag) != INLAY_OK)
        return diag->code;
    INLAY_CHECK(job->level >= 1 && job->level <= PRIORITY_LEVELS);
    return sequence_join(job, diag);
}
