#include "session/adapters.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "model/format.h"
#include "model/safetensors.h"
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_PARTS = 32, MOST_ADAPTERS = 1024, ALIGNMENT = 64 };
static const char INPUT[] = "adapter";

/* A name that '.' or '/' divides: "model.layers.0.self_attn.q_proj". */
struct parts {
    const char *text[MOST_PARTS];
    uint32_t bytes[MOST_PARTS];
    uint32_t count;
};

/* The names by which a matrix multiplication is found: of its node, its module and its weight. */
enum { NAMES = 3 };
struct candidate {
    graph_node *node;
    struct parts names[NAMES];
    int64_t k, n; /* sizes of its weight; 0: not known before inference */
};

/* The factors of one adapter for one multiplication. */
struct pair {
    struct pair *next;
    inlay_tensor_view first, second; /* [rank, k], [rank, n] */
    uint32_t adapter;
    float scale;
};

struct target {
    struct candidate *candidate;
    struct pair *pairs, **last;
    uint32_t pair_count;
};

struct adding {
    graph_model *model;
    inlay_diag *diag;
    struct candidate *candidates; /* [candidate_count] */
    struct target *targets;       /* [candidate_count] by candidate */
    uint32_t candidate_count, adapter_count;
};

/* An adapter that is being added. */
struct adapter {
    char path[PATH_MAX]; /* of the tensors */
    char config_path[PATH_MAX];
    json_t *config;
    struct safetensors file;
    uint32_t index;
};

static void split(const char *name, size_t bytes, struct parts *out)
{
    size_t begin = 0;

    out->count = 0;
    for (size_t i = 0; i <= bytes; i++) {
        if (i < bytes && name[i] != '.' && name[i] != '/')
            continue;
        if (i > begin && out->count < MOST_PARTS) {
            out->text[out->count] = name + begin;
            out->bytes[out->count++] = (uint32_t)(i - begin);
        }
        begin = i + 1;
    }
}

/* ONNX Runtime's builder of decoders names the module self_attn attn. */
static bool same_part(const struct parts *left, uint32_t i, const struct parts *right, uint32_t k)
{
    static const char own[] = "self_attn";
    const char *a = left->text[i], *b = right->text[k];
    uint32_t a_bytes = left->bytes[i], b_bytes = right->bytes[k];

    if (a_bytes == sizeof own - 1 && memcmp(a, own, a_bytes) == 0 && b_bytes == 4) {
        a += 5;
        a_bytes -= 5;
    }
    return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

/* The number of trailing parts of `module` that occur in `name` as consecutive parts. */
static uint32_t common_parts(const struct parts *module, const struct parts *name)
{
    uint32_t best = 0;

    for (uint32_t end = 1; end <= name->count; end++) {
        uint32_t count = 0;

        while (count < end && count < module->count &&
               same_part(module, module->count - 1 - count, name, end - 1 - count))
            count++;
        best = count > best ? count : best;
    }
    return best;
}

/* How many parts at the end of a module's name identify it: from the part before the first number on (layers.0.mlp);
 * without a number all but the first part. */
static uint32_t needed_parts(const struct parts *module)
{
    for (uint32_t i = 1; i < module->count; i++)
        if (module->text[i][0] >= '0' && module->text[i][0] <= '9')
            return module->count - (i - 1);
    return module->count > 1 ? module->count - 1 : module->count;
}

/* The constant from which value is computed without changing its elements much: through Transpose, DequantizeLinear and
 * Cast. INLAY_NONE: none. *out_direct: it is the value itself. */
static uint32_t weight_of(const struct graph *graph, uint32_t value, bool *out_direct)
{
    static const char *const through[] = { "Transpose", "DequantizeLinear", "Cast", "Identity", "UnpackBlocks" };

    *out_direct = true;
    for (int steps = 0; value != INLAY_NONE && steps < 4; steps++) {
        const inlay_value_info *info = &graph->values[value].info;
        const graph_node *node;
        bool known = false;

        if ((info->flags & INLAY_VALUE_CONSTANT) != 0 || graph->values[value].has_default)
            return value;
        if (info->producer == INLAY_NONE)
            return INLAY_NONE;
        node = graph->nodes[info->producer];
        for (size_t i = 0; i < sizeof through / sizeof *through; i++)
            known |= strcmp(node->info.op_type.data, through[i]) == 0;
        if (!known || node->info.input_count == 0)
            return INLAY_NONE;
        value = node->info.inputs[0];
        *out_direct = false;
    }
    return INLAY_NONE;
}

/* Whether the node multiplies rows by a constant matrix. */
static bool read_candidate(const struct graph *graph, graph_node *node, struct candidate *out)
{
    const char *op = node->info.op_type.data, *module = graph_node_module(node);
    const bool gemm = strcmp(op, "Gemm") == 0;
    const bool packed = strcmp(op, "MatMulNBits") == 0 || strcmp(op, "MatMulBnb4") == 0;
    const inlay_value_info *info;
    uint32_t weight;
    bool direct;

    if ((!gemm && !packed && strcmp(op, "MatMul") != 0) || node->info.input_count < 2 || node->info.output_count < 1 ||
        (gemm && graph_attr_int(node, "transA", 0) != 0))
        return false;
    weight = weight_of(graph, node->info.inputs[1], &direct);
    if (weight == INLAY_NONE)
        return false;
    info = &graph->values[weight].info;
    *out = (struct candidate){ .node = node };
    if (packed) {
        out->k = graph_attr_int(node, "K", 0);
        out->n = graph_attr_int(node, "N", 0);
    } else if (direct && info->rank == 2) {
        const bool turned = gemm && graph_attr_int(node, "transB", 0) != 0;

        out->k = info->dims[turned ? 1 : 0].value;
        out->n = info->dims[turned ? 0 : 1].value;
    }
    split(node->info.name.data, node->info.name.bytes, &out->names[0]);
    if (module != NULL)
        split(module, strlen(module), &out->names[1]);
    split(info->name.data, info->name.bytes, &out->names[2]);
    return true;
}

static inlay_status find_candidates(struct adding *adding)
{
    const struct graph *graph = adding->model->main;

    adding->candidates = arena_array(&adding->model->arena, (size_t)graph->node_count + 1, sizeof *adding->candidates);
    adding->targets = arena_array(&adding->model->arena, (size_t)graph->node_count + 1, sizeof *adding->targets);
    if (adding->candidates == NULL || adding->targets == NULL)
        return no_memory(adding->diag, "for option adapter");
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct target *target = &adding->targets[adding->candidate_count];

        if (!read_candidate(graph, graph->nodes[i], &adding->candidates[adding->candidate_count]))
            continue;
        *target = (struct target){ .candidate = &adding->candidates[adding->candidate_count] };
        target->last = &target->pairs;
        adding->candidate_count++;
    }
    return INLAY_OK;
}

/* Finds the multiplication of a module by the most parts of their names. */
static inlay_status find_target(struct adding *adding, const struct adapter *adapter, const char *tensor,
                                const struct parts *module, struct target **out_target)
{
    const uint32_t needed = needed_parts(module);
    const struct target *other = NULL;
    uint32_t best = needed > 0 ? needed - 1 : 0;

    *out_target = NULL;
    for (uint32_t i = 0; i < adding->candidate_count; i++) {
        uint32_t common = 0;

        for (uint32_t k = 0; k < NAMES; k++) {
            const uint32_t found = common_parts(module, &adding->candidates[i].names[k]);

            common = found > common ? found : common;
        }
        if (common > best) {
            *out_target = &adding->targets[i];
            other = NULL;
            best = common;
        } else if (common == best && *out_target != NULL) {
            other = &adding->targets[i];
        }
    }
    if (*out_target == NULL)
        return inlay_fail(adding->diag, INLAY_INVALID_ARGUMENT,
                          "%.250s: tensor '%.150s': the model's main graph has no matrix multiplication of that module",
                          adapter->path, tensor);
    if (other != NULL)
        return inlay_fail(adding->diag, INLAY_INVALID_ARGUMENT,
                          "%.200s: tensor '%.150s': both nodes '%.60s' and '%.60s' of the model may be meant",
                          adapter->path, tensor, (*out_target)->candidate->node->info.name.data,
                          other->candidate->node->info.name.data);
    return INLAY_OK;
}

/* Whether a key of rank_pattern or alpha_pattern, the last parts of a module's name, fits the module. */
static bool fits(const char *key, const char *module)
{
    const size_t key_bytes = strlen(key), bytes = strlen(module);

    return bytes >= key_bytes && strcmp(module + bytes - key_bytes, key) == 0 &&
           (bytes == key_bytes || module[bytes - key_bytes - 1] == '.');
}

/* The number that the configuration states for a module: in `patterns`, or else under `name`. */
static double number_of(const json_t *config, const char *patterns, const char *name, const char *module)
{
    json_t *map = json_object_get(config, patterns), *value;
    const char *key;

    json_object_foreach(map, key, value)
        if (fits(key, module))
            return json_number_value(value);
    return json_number_value(json_object_get(config, name));
}

static inlay_status config_fail(const struct adding *adding, const struct adapter *adapter, const char *what)
{
    return inlay_fail(adding->diag, INLAY_INVALID_ARGUMENT, "%.400s: %s", adapter->config_path, what);
}

/* Whether a key has another value than null, false, "none" or an empty list or mapping. */
static bool is_set(const json_t *config, const char *name)
{
    const json_t *value = json_object_get(config, name);
    const char *text = json_string_value(value);

    return value != NULL && !json_is_null(value) && !json_is_false(value) &&
           (text == NULL || strcmp(text, "none") != 0) && (!json_is_array(value) || json_array_size(value) > 0) &&
           (!json_is_object(value) || json_object_size(value) > 0);
}

/* Whether a text, or one of a list of texts, is that part of a name. */
static bool is_among(const json_t *texts, const struct parts *parts, uint32_t part)
{
    const size_t count = json_is_array(texts) ? json_array_size(texts) : 1;

    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_is_array(texts) ? json_array_get(texts, i) : texts);

        if (text != NULL && strlen(text) == parts->bytes[part] && memcmp(text, parts->text[part], strlen(text)) == 0)
            return true;
    }
    return false;
}

/* Whether layers_to_transform, a number or a list of them, has the layer of the module: the last number in its name
 * that has two parts before it and one behind it, and follows the layers_pattern, if there is one. */
static bool has_layer(const json_t *config, const struct parts *module)
{
    const json_t *layers = json_object_get(config, "layers_to_transform");
    const json_t *pattern = json_object_get(config, "layers_pattern");
    const size_t count = json_is_array(layers) ? json_array_size(layers) : 1;

    for (uint32_t i = module->count > 0 ? module->count - 1 : 0; i-- > 2;) {
        char *end;
        const long long layer = strtoll(module->text[i], &end, 10);

        if (end != module->text[i] + module->bytes[i] ||
            (is_set(config, "layers_pattern") && !is_among(pattern, module, i - 1)))
            continue;
        for (size_t k = 0; k < count; k++) {
            const json_t *number = json_is_array(layers) ? json_array_get(layers, k) : layers;

            if (json_is_integer(number) && json_integer_value(number) == layer)
                return true;
        }
        return false;
    }
    return false;
}

static bool lists(const json_t *keys, const char *module)
{
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (json_is_string(json_array_get(keys, i)) && fits(json_string_value(json_array_get(keys, i)), module))
            return true;
    return false;
}

/* The key of the configuration that leaves the module out, so that PEFT would ignore its tensors. NULL: none. Texts
 * instead of lists are regular expressions of Python and are not examined. */
static const char *left_out_by(const json_t *config, const char *module, const struct parts *parts)
{
    const json_t *targets = json_object_get(config, "target_modules");

    if (json_array_size(targets) > 0 && !lists(targets, module))
        return "target_modules";
    if (lists(json_object_get(config, "exclude_modules"), module))
        return "exclude_modules";
    return is_set(config, "layers_to_transform") && !has_layer(config, parts) ? "layers_to_transform" : NULL;
}

static inlay_status read_config(const struct adding *adding, struct adapter *adapter)
{
    static const struct {
        const char *name, *message;
    } refused[] = { { "use_dora", "'use_dora' is not supported" },
                    { "bias", "'bias' is not 'none', which is not supported" },
                    { "lora_bias", "'lora_bias' is not supported" },
                    { "modules_to_save", "'modules_to_save' is not supported" } };
    json_error_t error;
    const char *type;

    adapter->config = json_load_file(adapter->config_path, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(adapter->config))
        return config_fail(adding, adapter, adapter->config == NULL ? error.text : "it is not an object");
    type = json_string_value(json_object_get(adapter->config, "peft_type"));
    if (type != NULL && strcmp(type, "LORA") != 0)
        return config_fail(adding, adapter, "'peft_type' is not LORA");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_set(adapter->config, refused[i].name))
            return config_fail(adding, adapter, refused[i].message);
    if (!json_is_number(json_object_get(adapter->config, "lora_alpha")) ||
        !json_is_integer(json_object_get(adapter->config, "r")))
        return config_fail(adding, adapter, "it needs the numbers 'r' and 'lora_alpha'");
    return INLAY_OK;
}

/* The path of an adapter's files: of the tensors, or of their folder. */
static inlay_status find_files(const struct adding *adding, const char *path, struct adapter *adapter)
{
    const char *slash;
    struct stat st;
    int bytes;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        bytes = snprintf(adapter->path, sizeof adapter->path, "%s/adapter_model.safetensors", path);
        if (bytes > 0 && (size_t)bytes < sizeof adapter->path && stat(adapter->path, &st) != 0) {
            (void)snprintf(adapter->path, sizeof adapter->path, "%s/adapter_model.gguf", path);
            if (stat(adapter->path, &st) != 0) /* the usual name is the one to complain of */
                (void)snprintf(adapter->path, sizeof adapter->path, "%s/adapter_model.safetensors", path);
        }
    } else {
        bytes = snprintf(adapter->path, sizeof adapter->path, "%s", path);
    }
    if (bytes < 0 || (size_t)bytes + sizeof "adapter_config.json" > sizeof adapter->path)
        return inlay_fail(adding->diag, INLAY_INVALID_ARGUMENT, "option adapter: the path '%.100s...' is too long",
                          path);
    slash = strrchr(adapter->path, '/');
    (void)snprintf(adapter->config_path, sizeof adapter->config_path, "%.*sadapter_config.json",
                   slash != NULL ? (int)(slash - adapter->path) + 1 : 0, adapter->path);
    return INLAY_OK;
}

static inlay_status tensor_fail(const struct adding *adding, const struct adapter *adapter, const char *tensor,
                                const char *what)
{
    return inlay_fail(adding->diag, INLAY_INVALID_ARGUMENT, "%.250s: tensor '%.150s' %s", adapter->path, tensor, what);
}

/* Returns the size of a head whose rows the product has in pairs (FORMAT_PAIRED_ROWS), or 0 for other products. */
static int64_t paired_head(const graph_model *model, const graph_node *product, int64_t rows)
{
    const uint32_t output = product->info.outputs[0];
    bool paired = false;

    for (uint32_t i = 0; i < model->metadata_count; i++)
        paired |= strcmp(model->metadata[i].key, FORMAT_PAIRED_ROWS) == 0;
    for (uint32_t i = 0; paired && i < model->main->node_count; i++) {
        const graph_node *node = model->main->nodes[i];

        for (uint32_t k = 0; k < 2 && k < node->info.input_count; k++)
            if (node->info.inputs[k] == output && graph_attr_int(node, "rotary_interleaved", 0) != 0) {
                const int64_t heads = graph_attr_int(node, k == 0 ? "num_heads" : "kv_num_heads", 0);

                return heads > 0 && rows % (2 * heads) == 0 ? rows / heads : 0;
            }
    }
    return 0;
}

/* Returns an aligned copy of the elements; transposed (for lora_B, [n, rank]) if so requested, and then with the rows
 * in the order of paired_head() unless `head` is 0. NULL: out of memory. */
static const void *copy_elements(graph_model *model, const inlay_tensor_view *view, bool transposed, int64_t head)
{
    const size_t size = inlay_dtype_bits(view->dtype) / 8;
    const int64_t rows = view->dims[0], columns = view->dims[1];
    const char *from = view->data;
    char *to = graph_blob_alloc(model, view->bytes > 0 ? (size_t)view->bytes : 1);

    if (to != NULL && !transposed)
        memcpy(to, from, (size_t)view->bytes);
    for (int64_t i = 0; to != NULL && transposed && i < rows; i++) {
        const int64_t at = head == 0 ? i : i - i % head + i % head % (head / 2) * 2 + i % head / (head / 2);

        for (int64_t k = 0; k < columns; k++)
            memcpy(to + (size_t)(k * rows + at) * size, from + (size_t)(i * columns + k) * size, size);
    }
    if (to != NULL)
        graph_blob_release_pages(model, view->data, (size_t)view->bytes);
    return to;
}

static inlay_status check_factor(const struct adding *adding, const struct adapter *adapter,
                                 const struct safetensor *tensor, uint32_t rank_axis, int64_t rank, int64_t wanted)
{
    char what[160];
    const inlay_tensor_view *view = &tensor->view;

    if (view->dtype == INLAY_UNDEFINED)
        (void)snprintf(what, sizeof what, "has type %.20s; F32, F16 and BF16 are supported", tensor->type);
    else if (view->rank != 2)
        (void)snprintf(what, sizeof what, "has rank %u; a factor is a matrix", view->rank);
    else if (view->dims[rank_axis] != rank)
        (void)snprintf(what, sizeof what, "has rank %lld, but %s states %lld for it", (long long)view->dims[rank_axis],
                       adapter->config != NULL ? "adapter_config.json" : "the other factor", (long long)rank);
    else if (wanted > 0 && view->dims[1 - rank_axis] != wanted)
        (void)snprintf(what, sizeof what, "has %lld elements along axis %u, but the model's weight has %lld",
                       (long long)view->dims[1 - rank_axis], 1 - rank_axis, (long long)wanted);
    else
        return INLAY_OK;
    return tensor_fail(adding, adapter, tensor->name, what);
}

/* Adds the factors of a module, whose first one is `tensor`. */
static inlay_status add_pair(struct adding *adding, const struct adapter *adapter, const char *module,
                             const struct safetensor *tensor, const struct safetensor *second)
{
    graph_model *model = adding->model;
    const bool native = adapter->file.is_adapter;
    const double rank = native ? (double)tensor->view.dims[0] : number_of(adapter->config, "rank_pattern", "r", module);
    const double given =
        native ? adapter->file.alpha : number_of(adapter->config, "alpha_pattern", "lora_alpha", module);
    const double alpha = native && given == 0 ? rank : given;
    const bool root = json_is_true(json_object_get(adapter->config, "use_rslora"));
    const char *left_out;
    struct target *target;
    struct parts parts;
    struct pair *pair;
    int64_t *dims;
    inlay_status status;

    split(module, strlen(module), &parts);
    left_out = left_out_by(adapter->config, module, &parts);
    if (left_out != NULL) {
        char what[96];

        (void)snprintf(what, sizeof what, "is of a module that '%s' of adapter_config.json excludes", left_out);
        return tensor_fail(adding, adapter, tensor->name, what);
    }
    INLAY_TRY(find_target(adding, adapter, tensor->name, &parts, &target));
    INLAY_TRY(check_factor(adding, adapter, tensor, 0, (int64_t)rank, target->candidate->k));
    INLAY_TRY(check_factor(adding, adapter, second, 1, (int64_t)rank, target->candidate->n));
    for (pair = target->pairs; pair != NULL; pair = pair->next)
        if (pair->adapter == adapter->index)
            return tensor_fail(adding, adapter, tensor->name,
                               "is for a matrix multiplication that another tensor changes");
    pair = arena_alloc(&model->arena, sizeof *pair);
    dims = arena_array(&model->arena, 2, sizeof *dims);
    if (pair == NULL || dims == NULL)
        return no_memory(adding->diag, "for option adapter");
    *pair = (struct pair){ .first = tensor->view, .second = second->view, .adapter = adapter->index };
    pair->scale = (float)(rank > 0 ? alpha / (root ? sqrt(rank) : rank) : 0);
    pair->second.data = copy_elements(model, &second->view, true,
                                      native ? 0 : paired_head(model, target->candidate->node, second->view.dims[0]));
    dims[0] = second->view.dims[1];
    dims[1] = second->view.dims[0];
    pair->second.dims = dims;
    if ((uintptr_t)pair->first.data % ALIGNMENT != 0) /* each program of the session would copy it */
        pair->first.data = copy_elements(model, &tensor->view, false, 0);
    if (pair->first.data == NULL || pair->second.data == NULL)
        return no_memory(adding->diag, "for option adapter");
    *target->last = pair;
    target->last = &pair->next;
    target->pair_count++;
done:
    return status;
}

/* The beginning of a tensor's name before `.lora_A.weight` or, of a named adapter, `.lora_A.NAME.weight`. false: it has
 * another name. */
static bool read_name(const char *name, const char *factor, size_t *out_bytes)
{
    const char *at = strstr(name, factor), *end = at != NULL ? at + strlen(factor) : NULL;
    const char *last = end != NULL ? strrchr(end, '.') : NULL;

    *out_bytes = at != NULL ? (size_t)(at - name) : 0;
    return at != NULL && at > name && (strcmp(end, "weight") == 0 || (last != NULL && strcmp(last, ".weight") == 0));
}

static inlay_status add_tensors(struct adding *adding, const struct adapter *adapter)
{
    static const char wrapper[] = "base_model.model.";
    uint32_t pairs = 0;

    for (uint32_t i = 0; i < adapter->file.count; i++) {
        const struct safetensor *tensor = &adapter->file.tensors[i], *second;
        const char *name = tensor->name;
        char other[512], module[512];
        inlay_status status;
        size_t bytes;
        bool first = read_name(name, ".lora_A.", &bytes);

        if ((!first && !read_name(name, ".lora_B.", &bytes)) || strlen(name) >= sizeof other)
            return tensor_fail(adding, adapter, name, "is neither lora_A.weight nor lora_B.weight of a module");
        (void)snprintf(other, sizeof other, "%s", name);
        other[bytes + 6] = first ? 'B' : 'A';
        second = safetensors_find(&adapter->file, other);
        if (second == NULL)
            return tensor_fail(adding, adapter, name,
                               first ? "has no lora_B of the same module" : "has no lora_A of the same module");
        if (!first)
            continue;
        if (strncmp(name, wrapper, sizeof wrapper - 1) == 0) {
            name += sizeof wrapper - 1;
            bytes -= bytes < sizeof wrapper - 1 ? bytes : sizeof wrapper - 1;
        }
        (void)snprintf(module, sizeof module, "%.*s", (int)bytes, name);
        status = add_pair(adding, adapter, module, tensor, second);
        if (status != INLAY_OK)
            return status;
        pairs++;
    }
    if (pairs == 0)
        return inlay_fail(adding->diag, INLAY_INVALID_ARGUMENT, "%.400s: it has no tensors", adapter->path);
    return INLAY_OK;
}

static inlay_status add_adapter(struct adding *adding, const char *path)
{
    struct adapter adapter = { .index = adding->adapter_count };
    inlay_status status;

    INLAY_TRY(find_files(adding, path, &adapter));
    INLAY_TRY(safetensors_open(adding->model, adapter.path, &adapter.file, adding->diag));
    if (!adapter.file.is_adapter)
        INLAY_TRY(read_config(adding, &adapter));
    INLAY_TRY(add_tensors(adding, &adapter));
    adding->adapter_count++;
done:
    json_decref(adapter.config);
    return status;
}

/* Adds the input, which chooses no adapter by default. */
static inlay_status add_input(struct adding *adding, uint32_t *out_value)
{
    static const int64_t none = -1, one = 1;
    struct graph *graph = adding->model->main;
    const inlay_tensor_view view = {
        .data = &none, .bytes = sizeof none, .dims = &one, .rank = 1, .dtype = INLAY_INT64
    };

    if (graph_find_value(graph, INPUT) != INLAY_NONE)
        return inlay_fail(adding->diag, INLAY_UNSUPPORTED,
                          "option adapter: the model has a value named 'adapter', the name of the input to add");
    *out_value = graph_add_list_input(graph, INPUT, "adapter_rows", &view);
    return *out_value != INLAY_NONE ? INLAY_OK : no_memory(adding->diag, "for option adapter");
}

/* Inserts a LowRank after the target's multiplication, whose output it takes over. false: out of memory. */
static bool add_node(struct adding *adding, const struct target *target, uint32_t input)
{
    graph_model *model = adding->model;
    struct graph *graph = model->main;
    graph_node *product = target->candidate->node;
    const char *name = arena_format(&model->arena, "%s/adapter", product->info.name.data);
    graph_node *node = graph_add_node(graph, "LowRank", "ai.inlay", name, 3 + 2 * target->pair_count, 1);
    int64_t *adapters = arena_array(&model->arena, target->pair_count, sizeof *adapters);
    float *scales = arena_array(&model->arena, target->pair_count, sizeof *scales);
    const uint32_t base = graph_add_value(graph, NULL, 0);
    uint32_t *inputs, i = 0;
    bool good = name != NULL && node != NULL && adapters != NULL && scales != NULL && base != INLAY_NONE;

    if (!good)
        return false;
    inputs = (uint32_t *)(uintptr_t)node->info.inputs;
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = product->info.outputs[0];
    ((uint32_t *)(uintptr_t)product->info.outputs)[0] = base;
    graph->values[base].info.kind = INLAY_VALUE_TENSOR;
    inputs[0] = base;
    inputs[1] = product->info.inputs[0];
    inputs[2] = input;
    for (const struct pair *pair = target->pairs; pair != NULL; pair = pair->next, i++) {
        adapters[i] = pair->adapter;
        scales[i] = pair->scale;
        good = good && graph_add_constant(graph, &pair->first, &inputs[3 + 2 * i]) &&
               graph_add_constant(graph, &pair->second, &inputs[4 + 2 * i]);
    }
    INLAY_CHECK(i == target->pair_count);
    return good && graph_set_attr_ints(graph, node, "adapters", adapters, i) == INLAY_OK &&
           graph_set_attr_int(graph, node, "count", adding->adapter_count) == INLAY_OK &&
           graph_set_attr(graph, node,
                          &(inlay_attr_info){
                              .name = { "scales", 6 }, .kind = INLAY_ATTR_FLOATS, .count = i, .floats = scales }) ==
               INLAY_OK;
}

inlay_status adapters_add(graph_model *model, const inlay_options *options, inlay_diag *diag)
{
    struct adding adding = { .model = model, .diag = diag };
    inlay_status status = INLAY_OK;
    uint32_t input = INLAY_NONE;
    option_pair item;

    if (!options_pair(options, OPTION_adapter, 0, &item))
        return INLAY_OK;
    INLAY_TRY(find_candidates(&adding));
    for (uint32_t i = 0; options_pair(options, OPTION_adapter, i, &item); i++) {
        if (i == MOST_ADAPTERS)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "option adapter: more than %d adapters", MOST_ADAPTERS);
        INLAY_TRY(add_adapter(&adding, item.value));
    }
    INLAY_TRY(add_input(&adding, &input));
    for (uint32_t i = 0; i < adding.candidate_count; i++)
        if (adding.targets[i].pair_count > 0 && !add_node(&adding, &adding.targets[i], input))
            return no_memory(diag, "for option adapter");
    if (!graph_model_import(model, "ai.inlay", 1))
        return no_memory(diag, "for option adapter");
    status = graph_finish(model->main, diag);
done:
    return status;
}
