/* config.pbtxt: the configuration of a model in Triton's form. A setting that the server does not support is an error
 * with its line; settings that the file leaves out are taken from the model. */
#include "model_config.pb-c.h"
#include "inlay/check.h"
#include "serve/model/files.h"
#include "serve/repository/model_config.h"
#include "codecs/datatype.h"
#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *text, const char *first, const char *second)
{
    return text[0] == '\0' || strcmp(text, first) == 0 || strcmp(text, second) == 0;
}

/* An ensemble has steps instead of a file. */
static inlay_status take_ensemble(const struct pbtxt *text, model_config *config, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    bool has_steps = file->scheduling_choice_case == INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING;

    config->is_ensemble = strcmp(file->platform, "ensemble") == 0;
    if (!config->is_ensemble)
        return has_steps ? pbtxt_fail(text, file, "ensemble_scheduling", diag, "the platform is not ensemble")
                         : INLAY_OK;
    if (!has_steps)
        return pbtxt_fail(text, file, "platform", diag, "an ensemble needs ensemble_scheduling");
    if (file->backend[0] != '\0')
        return pbtxt_fail(text, file, "backend", diag, "an ensemble has none");
    if (file->n_parameters > 0)
        return pbtxt_fail(text, file, "parameters", diag, "library options are those of the models of the steps");
    config->settings.max_batch = file->max_batch_size > 1 ? (uint32_t)file->max_batch_size : 1;
    return INLAY_OK;
}

static inlay_status take_names(const char *name, const struct pbtxt *text, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;

    if (file->name[0] != '\0' && strcmp(file->name, name) != 0)
        return pbtxt_fail(text, file, "name", diag, "'%s' is not the name of the folder, '%s'", file->name, name);
    if (!is_one_of(file->platform, "onnxruntime_onnx", "inlay_onnx") && strcmp(file->platform, "ensemble") != 0)
        return pbtxt_fail(text, file, "platform", diag, "'%s' is not supported; ONNX models have onnxruntime_onnx",
                          file->platform);
    if (!is_one_of(file->backend, "onnxruntime", "inlay"))
        return pbtxt_fail(text, file, "backend", diag, "'%s' is not supported; ONNX models have onnxruntime",
                          file->backend);
    if (!is_one_of(file->default_model_filename, "model.onnx", "model.onnx"))
        return pbtxt_fail(text, file, "default_model_filename", diag, "the file of a version is always model.onnx");
    if (file->model_transaction_policy != NULL && file->model_transaction_policy->decoupled)
        return pbtxt_fail(text, file->model_transaction_policy, "decoupled", diag,
                          "each request has exactly one reply");
    if (file->response_cache != NULL && file->response_cache->enable)
        return pbtxt_fail(text, file->response_cache, "enable", diag, "there is no cache of replies");
    return INLAY_OK;
}

static inlay_status take_versions(const struct pbtxt *text, model_config *config, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    const Inference__ModelVersionPolicy *policy = file->version_policy;

    if (policy == NULL)
        return INLAY_OK;
    if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST) {
        config->latest_count = policy->latest->num_versions;
    } else if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL) {
        config->all_versions = true;
    } else if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC) {
        const Inference__ModelVersionPolicy__Specific *chosen = policy->specific;

        if (chosen->n_versions == 0 || chosen->n_versions > CONFIG_MAX_VERSIONS)
            return pbtxt_fail(text, policy, "specific", diag, "needs from 1 to %d versions", CONFIG_MAX_VERSIONS);
        for (size_t i = 0; i < chosen->n_versions; i++) {
            if (chosen->versions[i] <= 0)
                return pbtxt_fail(text, chosen, "versions", diag, "a version is a number from 1 on");
            config->versions[config->version_count++] = (uint64_t)chosen->versions[i];
        }
    }
    return INLAY_OK;
}

static inlay_status take_batching(const struct pbtxt *text, const Inference__ModelDynamicBatching *batching,
                                  model_config *config, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    const Inference__ModelQueuePolicy *queue = batching->default_queue_policy;

    for (size_t i = 0; i < batching->n_preferred_batch_size; i++)
        if (batching->preferred_batch_size[i] <= 0 || batching->preferred_batch_size[i] > file->max_batch_size)
            return pbtxt_fail(text, batching, "preferred_batch_size", diag, "must be from 1 to max_batch_size");
    if (batching->preserve_ordering)
        return pbtxt_fail(text, batching, "preserve_ordering", diag,
                          "replies are sent when they are complete; only those of a stream are in order");
    if (batching->max_queue_delay_microseconds > 10000000)
        return pbtxt_fail(text, batching, "max_queue_delay_microseconds", diag, "must be at most 10000000");
    if (batching->priority_levels > PRIORITY_LEVELS)
        return pbtxt_fail(text, batching, "priority_levels", diag, "must be at most %d", PRIORITY_LEVELS);
    if (batching->default_priority_level > batching->priority_levels)
        return pbtxt_fail(text, batching, "default_priority_level", diag, "must be at most priority_levels");
    if (queue != NULL && queue->max_queue_size > 1000000)
        return pbtxt_fail(text, queue, "max_queue_size", diag, "must be at most 1000000");
    config->settings.max_batch = file->max_batch_size > 1 ? (uint32_t)file->max_batch_size : 1;
    config->settings.batch_delay_us = batching->max_queue_delay_microseconds;
    if (batching->default_priority_level > 0)
        config->settings.priority = (uint32_t)batching->default_priority_level;
    if (queue != NULL && queue->max_queue_size > 0)
        config->settings.max_queue = queue->max_queue_size;
    config->requests_batching = config->settings.max_batch > 1;
    return INLAY_OK;
}

static inlay_status take_scheduling(const struct pbtxt *text, model_config *config, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;

    if (file->max_batch_size < 0 || file->max_batch_size > 65536)
        return pbtxt_fail(text, file, "max_batch_size", diag, "must be from 0 to 65536");
    config->settings.max_batch = 1;
    if (file->scheduling_choice_case == INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
        return take_batching(text, file->dynamic_batching, config, diag);
    if (file->scheduling_choice_case == INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING &&
        file->sequence_batching->max_sequence_idle_microseconds > 0)
        config->settings.sequence_idle_ns = file->sequence_batching->max_sequence_idle_microseconds < UINT64_MAX / 1000
                                                ? file->sequence_batching->max_sequence_idle_microseconds * 1000
                                                : UINT64_MAX;
    return INLAY_OK;
}

static inlay_status take_instances(const struct pbtxt *text, model_config *config, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    uint32_t count = 0;

    for (size_t i = 0; i < file->n_instance_group; i++) {
        const Inference__ModelInstanceGroup *group = file->instance_group[i];

        if (group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU || group->n_gpus > 0)
            return pbtxt_fail(text, group, group->n_gpus > 0 ? "gpus" : "kind", diag,
                              "instances have no separate devices; the library option providers chooses devices");
        if (group->count < 0 || group->count > 4096 || count + (uint32_t)group->count > 4096)
            return pbtxt_fail(text, group, "count", diag, "the counts of all groups must add up to 1 to 4096");
        count += group->count > 0 ? (uint32_t)group->count : 1;
    }
    if (count > 0)
        config->settings.instances = count;
    return INLAY_OK;
}

/* parameters are library options. */
static inlay_status take_parameters(const struct pbtxt *text, model_config *config, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    inlay_status status = INLAY_OK;

    for (size_t i = 0; status == INLAY_OK && i < file->n_parameters; i++) {
        const Inference__ParameterEntry *entry = file->parameters[i];

        if (entry->key[0] == '\0' || entry->value == NULL)
            return pbtxt_fail(text, file, "parameters", diag, "each needs a key and a value with string_value");
        status = model_config_add_option(config, text->path, entry->key, strlen(entry->key), entry->value->string_value,
                                         diag);
    }
    return status;
}

inlay_status config_text_take(const char *name, model_config *config, inlay_diag *diag)
{
    const struct pbtxt *text = &config->text;
    inlay_status status = INLAY_OK;

    INLAY_TRY(take_names(name, text, diag));
    INLAY_TRY(take_versions(text, config, diag));
    INLAY_TRY(take_scheduling(text, config, diag));
    INLAY_TRY(take_ensemble(text, config, diag));
    INLAY_TRY(take_instances(text, config, diag));
    INLAY_TRY(take_parameters(text, config, diag));
done:
    return status;
}

static Inference__DataType data_type_of(inlay_dtype dtype)
{
    static const struct {
        inlay_dtype dtype;
        Inference__DataType type;
    } types[] = {
        { INLAY_BOOL, INFERENCE__DATA_TYPE__TYPE_BOOL },     { INLAY_UINT8, INFERENCE__DATA_TYPE__TYPE_UINT8 },
        { INLAY_UINT16, INFERENCE__DATA_TYPE__TYPE_UINT16 }, { INLAY_UINT32, INFERENCE__DATA_TYPE__TYPE_UINT32 },
        { INLAY_UINT64, INFERENCE__DATA_TYPE__TYPE_UINT64 }, { INLAY_INT8, INFERENCE__DATA_TYPE__TYPE_INT8 },
        { INLAY_INT16, INFERENCE__DATA_TYPE__TYPE_INT16 },   { INLAY_INT32, INFERENCE__DATA_TYPE__TYPE_INT32 },
        { INLAY_INT64, INFERENCE__DATA_TYPE__TYPE_INT64 },   { INLAY_FLOAT16, INFERENCE__DATA_TYPE__TYPE_FP16 },
        { INLAY_FLOAT, INFERENCE__DATA_TYPE__TYPE_FP32 },    { INLAY_DOUBLE, INFERENCE__DATA_TYPE__TYPE_FP64 },
        { INLAY_STRING, INFERENCE__DATA_TYPE__TYPE_STRING }, { INLAY_BFLOAT16, INFERENCE__DATA_TYPE__TYPE_BF16 }
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype)
            return types[i].type;
    return INFERENCE__DATA_TYPE__TYPE_INVALID;
}

static const inlay_io_info *find_io(const inlay_io_info *ios, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(ios[i].name, name) == 0)
            return &ios[i];
    return NULL;
}

/* An input or output of the file. */
typedef struct given_io {
    const void *message;
    const char *name;
    Inference__DataType type;
    const int64_t *dims;
    size_t rank;
} given_io;

static inlay_status check_dims(const struct pbtxt *text, const given_io *given, const inlay_io_info *io, bool batched,
                               inlay_diag *diag)
{
    uint32_t first = batched;
    bool fits = io->rank == INLAY_RANK_UNKNOWN || given->rank + first == io->rank;

    if (files_is_list(io) && batched && given->rank == 1 && given->dims[0] == 1)
        return INLAY_OK; /* [n,1] is accepted, too */
    for (size_t i = 0; i < given->rank; i++) {
        if (given->dims[i] < 1 && given->dims[i] != -1)
            return pbtxt_fail(text, given->message, "dims", diag, "a size is from 1 on, or -1 for any size");
        fits = fits &&
               (io->rank == INLAY_RANK_UNKNOWN || io->dims[first + i] == -1 || io->dims[first + i] == given->dims[i]);
    }
    return fits ? INLAY_OK
                : pbtxt_fail(text, given->message, "dims", diag, "'%s' has another shape in the model%s", given->name,
                             batched ? ", whose first axis is not in dims, since max_batch_size is above 0" : "");
}

static inlay_status check_io(const struct pbtxt *text, const given_io *given, const inlay_io_info *ios, uint32_t count,
                             bool batched, inlay_diag *diag)
{
    const inlay_io_info *io = find_io(ios, count, given->name);

    if (io == NULL)
        return pbtxt_fail(text, given->message, "name", diag, "the model has no '%s'", given->name);
    if (given->type != data_type_of(io->dtype))
        return pbtxt_fail(text, given->message, "data_type", diag, "'%s' is %s in the model", given->name,
                          datatype_name(io->dtype) != NULL ? datatype_name(io->dtype) : inlay_dtype_name(io->dtype));
    return check_dims(text, given, io, batched, diag);
}

static inlay_status check_file(const struct pbtxt *text, const struct model *model, inlay_diag *diag)
{
    const Inference__ModelConfig *file = (const void *)text->message;
    bool batched = file->max_batch_size > 0;
    inlay_status status = INLAY_OK;

    if (batched && !model->batchable)
        return pbtxt_fail(text, file, "max_batch_size", diag,
                          "the inputs and outputs of the model do not share a symbolic first axis; it must be 0");
    for (size_t i = 0; status == INLAY_OK && i < file->n_input; i++) {
        const Inference__ModelInput *input = file->input[i];
        const given_io given = { input, input->name, input->data_type, input->dims, input->n_dims };

        status = check_io(text, &given, model->io.inputs, model->io.input_count, batched, diag);
    }
    for (uint32_t k = 0; status == INLAY_OK && file->n_input > 0 && k < model->io.input_count; k++) {
        bool found = model->io.inputs[k].optional || model->states.inputs[k];

        for (size_t i = 0; !found && i < file->n_input; i++)
            found = strcmp(file->input[i]->name, model->io.inputs[k].name) == 0;
        if (!found)
            status =
                pbtxt_fail(text, file, "input", diag, "the model's input '%s' is missing", model->io.inputs[k].name);
    }
    for (size_t i = 0; status == INLAY_OK && i < file->n_output; i++) {
        const Inference__ModelOutput *output = file->output[i];
        const given_io given = { output, output->name, output->data_type, output->dims, output->n_dims };

        status = check_io(text, &given, model->io.outputs, model->io.output_count, batched, diag);
    }
    return status;
}

/* A new message, which its owner's release frees; NULL: out of memory. */
static void *new_message(const ProtobufCMessageDescriptor *type)
{
    return protobuf_c_message_unpack(type, NULL, 0, NULL);
}

/* A copy that the owner's release frees. */
static Inference__ModelConfig *copy_of(const ProtobufCMessage *message)
{
    size_t bytes = message != NULL ? protobuf_c_message_get_packed_size(message) : 0;
    uint8_t *packed = malloc(bytes + 1);
    Inference__ModelConfig *copy = NULL;

    if (packed != NULL && message != NULL)
        (void)protobuf_c_message_pack(message, packed);
    if (packed != NULL)
        copy = inference__model_config__unpack(NULL, bytes, packed);
    free(packed);
    return copy;
}

/* Sets a text that is not given. */
static bool complete_text(char **text, const char *value)
{
    char *copy;

    if ((*text)[0] != '\0')
        return true;
    copy = strdup(value);
    if (copy != NULL)
        *text = copy; /* it was the schema's empty text */
    return copy != NULL;
}

static bool set_dims(const inlay_io_info *io, bool batched, size_t *out_count, int64_t **out_dims)
{
    uint32_t first = batched, rank = io->rank == INLAY_RANK_UNKNOWN || io->rank < first ? 0 : io->rank - first;

    *out_dims = malloc((rank + 1u) * sizeof **out_dims);
    if (*out_dims == NULL)
        return false;
    memcpy(*out_dims, io->dims + first, rank * sizeof **out_dims);
    *out_count = rank;
    return true;
}

static bool complete_inputs(Inference__ModelConfig *config, const struct model *model, bool batched)
{
    if (config->n_input > 0)
        return true;
    config->input = calloc(model->io.input_count + 1u, sizeof *config->input);
    for (uint32_t i = 0; config->input != NULL && i < model->io.input_count; i++) {
        Inference__ModelInput *input = new_message(&inference__model_input__descriptor);

        if (input == NULL)
            return false;
        config->input[config->n_input++] = input;
        input->data_type = data_type_of(model->io.inputs[i].dtype);
        input->optional = model->io.inputs[i].optional != 0;
        if (!complete_text(&input->name, model->io.inputs[i].name) ||
            !set_dims(&model->io.inputs[i], batched, &input->n_dims, &input->dims))
            return false;
    }
    return config->input != NULL;
}

static bool complete_outputs(Inference__ModelConfig *config, const struct model *model, bool batched)
{
    if (config->n_output > 0)
        return true;
    config->output = calloc(model->io.output_count + 1u, sizeof *config->output);
    for (uint32_t i = 0; config->output != NULL && i < model->io.output_count; i++) {
        Inference__ModelOutput *output = new_message(&inference__model_output__descriptor);

        if (output == NULL)
            return false;
        config->output[config->n_output++] = output;
        output->data_type = data_type_of(model->io.outputs[i].dtype);
        if (!complete_text(&output->name, model->io.outputs[i].name) ||
            !set_dims(&model->io.outputs[i], batched, &output->n_dims, &output->dims))
            return false;
    }
    return config->output != NULL;
}

static bool complete_instances(Inference__ModelConfig *config, const struct model *model)
{
    Inference__ModelInstanceGroup *group;
    char name[160];

    if (config->n_instance_group > 0)
        return true;
    group = new_message(&inference__model_instance_group__descriptor);
    config->instance_group = calloc(1, sizeof *config->instance_group);
    if (group == NULL || config->instance_group == NULL) {
        free(group);
        return false;
    }
    config->instance_group[config->n_instance_group++] = group;
    (void)snprintf(name, sizeof name, "%s_0", model->name);
    group->kind = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU;
    group->count = (int32_t)model->settings.instances;
    return complete_text(&group->name, name);
}

static bool complete_policy(Inference__ModelConfig *config, const model_config *settings)
{
    Inference__ModelVersionPolicy *policy = config->version_policy;

    if (policy != NULL)
        return true;
    config->version_policy = policy = new_message(&inference__model_version_policy__descriptor);
    if (policy == NULL)
        return false;
    if (settings->all_versions) {
        policy->all = new_message(&inference__model_version_policy__all__descriptor);
        policy->policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL;
        return policy->all != NULL;
    }
    if (settings->version_count == 0) {
        policy->latest = new_message(&inference__model_version_policy__latest__descriptor);
        policy->policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST;
        if (policy->latest != NULL)
            policy->latest->num_versions = 1;
        return policy->latest != NULL;
    }
    policy->specific = new_message(&inference__model_version_policy__specific__descriptor);
    policy->policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC;
    if (policy->specific == NULL)
        return false;
    policy->specific->versions = calloc(settings->version_count, sizeof *policy->specific->versions);
    if (policy->specific->versions == NULL)
        return false;
    for (uint32_t i = 0; i < settings->version_count; i++)
        policy->specific->versions[policy->specific->n_versions++] = (int64_t)settings->versions[i];
    return true;
}

/* Without a file: as the model is served. */
static bool complete_batching(Inference__ModelConfig *config, const struct model *model)
{
    config->max_batch_size = model->batchable ? (int32_t)model->settings.max_batch : 0;
    if (model->settings.max_batch <= 1)
        return true;
    config->dynamic_batching = new_message(&inference__model_dynamic_batching__descriptor);
    if (config->dynamic_batching == NULL)
        return false;
    config->scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
    config->dynamic_batching->max_queue_delay_microseconds = model->settings.batch_delay_us;
    config->dynamic_batching->priority_levels = PRIORITY_LEVELS;
    config->dynamic_batching->default_priority_level = model->settings.priority;
    return true;
}

inlay_status config_text_complete(const model_config *settings, struct model *model, inlay_diag *diag)
{
    bool has_file = settings->text.message != NULL, batched;
    Inference__ModelConfig *config;
    inlay_status status = has_file ? check_file(&settings->text, model, diag) : INLAY_OK;

    INLAY_CHECK(model->config == NULL);
    if (status != INLAY_OK)
        return status;
    config = copy_of(settings->text.message);
    if (config == NULL)
        return no_memory(diag, "for the configuration of '%s'", model->name);
    model->config = &config->base;
    if (!has_file && !complete_batching(config, model))
        return no_memory(diag, "for the configuration of '%s'", model->name);
    batched = config->max_batch_size > 0;
    if (!settings->is_ensemble &&
        (!complete_text(&config->platform, "inlay_onnx") || !complete_text(&config->backend, "inlay") ||
         !complete_text(&config->default_model_filename, "model.onnx")))
        return no_memory(diag, "for the configuration of '%s'", model->name);
    return complete_text(&config->name, model->name) && complete_inputs(config, model, batched) &&
                   complete_outputs(config, model, batched) && complete_instances(config, model) &&
                   complete_policy(config, settings)
               ? INLAY_OK
               : no_memory(diag, "for the configuration of '%s'", model->name);
}
