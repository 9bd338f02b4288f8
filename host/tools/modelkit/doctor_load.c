/* Findings about models that do not load: which mistake of the export or of the copy it was, and how to avoid it. */
#include "modelkit/doctor_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { GROUPED = 2000 }; /* errors about missing operators that are grouped; a model may have one for each node */

/* An operator that nothing provides: its kind of finding, and the text by which nodes are grouped. */
typedef struct missing_operator {
    doctor_kind kind;
    char name[160]; /* "aten::grid_sampler", or the domain */
    const struct graph *graph;
    const graph_node *node;
} missing_operator;

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static missing_operator classify_operator(const graph_finding *error)
{
    const inlay_node_info *node = &error->n->info;
    const char *domain = node->domain.data;
    const inlay_attr_info *original = graph_attr(error->n, "operator");
    missing_operator out = { .kind = DOCTOR_CUSTOM_DOMAIN, .graph = error->graph, .node = error->n };

    if (strcmp(domain, "aten") == 0 || begins(domain, "org.pytorch.")) {
        const bool named = strcmp(node->op_type.data, "ATen") == 0 && original != NULL &&
                           original->kind == INLAY_ATTR_STRING && original->s.data != NULL;

        out.kind = DOCTOR_ATEN_OPERATOR;
        (void)snprintf(out.name, sizeof out.name, "aten::%.*s",
                       named ? (int)original->s.bytes : (int)node->op_type.bytes,
                       named ? original->s.data : node->op_type.data);
    } else if (strcmp(domain, "prim") == 0 || strcmp(domain, "onnx") == 0) {
        out.kind = DOCTOR_PRIM_OPERATOR;
        (void)snprintf(out.name, sizeof out.name, "%s::%.120s", domain, node->op_type.data);
    } else {
        (void)snprintf(out.name, sizeof out.name, "%.120s", domain);
    }
    return out;
}

/* Appends the operator's name to a list "A, B", unless the list has it or is full. */
static void list_operator(char *list, size_t bytes, const char *name)
{
    const size_t used = strlen(list), length = strlen(name);

    for (const char *at = strstr(list, name); at != NULL; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return;
    if (used + length + sizeof ", ..." < bytes)
        (void)snprintf(list + used, bytes - used, "%s%s", used > 0 ? ", " : "", name);
    else if (used >= 3 && strcmp(list + used - 3, "...") != 0)
        (void)snprintf(list + used, bytes - used, "%s", " ...");
}

static void report_operators(struct doctor *doctor, const missing_operator *list, uint32_t first, uint32_t count)
{
    const missing_operator *missing = &list[first];
    char operators[160] = "", nodes[192];
    uint32_t same = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (list[i].kind != missing->kind || strcmp(list[i].name, missing->name) != 0)
            continue;
        if (i < first)
            return; /* reported with an earlier node */
        same++;
        list_operator(operators, sizeof operators, list[i].node->info.op_type.data);
    }
    if (same > 1)
        (void)snprintf(nodes, sizeof nodes, "%u nodes, the first '%.120s'", same, missing->node->info.name.data);
    else
        (void)snprintf(nodes, sizeof nodes, "node '%.120s'", missing->node->info.name.data);
    if (missing->kind == DOCTOR_CUSTOM_DOMAIN)
        (void)doctor_add(doctor, missing->kind, NULL, NULL, INLAY_NONE,
                         "no plugin has the operators of domain '%s': %s (%s)", missing->name, operators, nodes);
    else if (missing->kind == DOCTOR_ATEN_OPERATOR)
        (void)doctor_add(doctor, missing->kind, NULL, NULL, INLAY_NONE,
                         "%s (%s) is an operator of PyTorch, which its exporter had no ONNX operators for",
                         missing->name, nodes);
    else
        (void)doctor_add(doctor, missing->kind, NULL, NULL, INLAY_NONE,
                         "%s (%s) is an internal operation of TorchScript, which its exporter left as it was",
                         missing->name, nodes);
}

static bool is_fault(const graph_finding *error, graph_fault fault)
{
    const char *code, *advice;

    graph_fault_text(1 + (uint32_t)fault, INLAY_INVALID_MODEL, &code, &advice);
    return strcmp(error->code, code) == 0;
}

/* Is the external file that the message names a pointer of Git LFS? */
static bool external_is_pointer(const char *path, const char *text)
{
    static const char begin[] = "external file '", magic[] = "version https://git-lfs";
    const char *slash = strrchr(path, '/'), *name = strstr(text, begin), *end;
    char place[1024], head[sizeof magic] = "";
    FILE *file;

    name = name == NULL ? NULL : name + sizeof begin - 1;
    end = name == NULL ? NULL : strchr(name, '\'');
    if (end == NULL || *name == '/')
        return false;
    (void)snprintf(place, sizeof place, "%.*s%.*s", slash == NULL ? 0 : (int)(slash - path + 1), path,
                   (int)(end - name), name);
    file = fopen(place, "rb");
    if (file == NULL)
        return false;
    (void)fread(head, 1, sizeof magic - 1, file);
    (void)fclose(file);
    return strcmp(head, magic) == 0;
}

/* Does the file end where writers that count in 31 bits stop? */
static bool ends_at_two_gib(const char *path)
{
    const int64_t limit = INT64_C(1) << 31, near = 65536;
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size >= limit - near &&
           facts.st_size <= limit + near;
}

static doctor_kind external_kind(const char *path, const char *text)
{
    if (external_is_pointer(path, text))
        return DOCTOR_EXTERNAL_MISSING;
    if (strstr(text, "which has only") != NULL)
        return DOCTOR_EXTERNAL_CUT;
    return strstr(text, "external data has length") != NULL ? DOCTOR_EXTERNAL_WRONG : DOCTOR_EXTERNAL_MISSING;
}

/* The kind of an error that has no code, from its message: the layers below report only text. */
static doctor_kind kind_of_text(const char *path, const char *text)
{
    static const struct {
        const char *words;
        doctor_kind kind;
    } rows[] = {
        { "ir_version", DOCTOR_OPSET_TOO_NEW },   { "Git LFS pointer", DOCTOR_NOT_ONNX },
        { "is empty", DOCTOR_NOT_ONNX },          { "the file is truncated", DOCTOR_FILE_CUT },
        { "not an ONNX model", DOCTOR_NOT_ONNX }, { "must have the same type", DOCTOR_WRONG_TYPE },
        { " takes ", DOCTOR_WRONG_TYPE }, /* "input 0 (X) is bfloat16; Conv-11 takes float there" */
    };

    if (strstr(text, "external file '") != NULL || strstr(text, "external data") != NULL)
        return external_kind(path, text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strstr(text, rows[i].words) == NULL)
            continue;
        if ((rows[i].kind == DOCTOR_FILE_CUT || strstr(text, "is damaged or not") != NULL) && ends_at_two_gib(path))
            return DOCTOR_TWO_GIB;
        return rows[i].kind;
    }
    return DOCTOR_MODEL_INVALID;
}

static void report_text(struct doctor *doctor, doctor_kind kind, const char *path, const char *text)
{
    const char *more = "";

    if (kind == DOCTOR_TWO_GIB)
        more = "; the file ends at 2 GiB, the limit of a protobuf message";
    else if (kind == DOCTOR_EXTERNAL_MISSING && external_is_pointer(path, text))
        more = "; it is a Git LFS pointer: run 'git lfs pull'";
    (void)doctor_add(doctor, kind, NULL, NULL, INLAY_NONE, "%.400s%s", text, more);
}

static void report_error(struct doctor *doctor, const char *path, const graph_finding *error)
{
    static const struct {
        graph_fault fault;
        doctor_kind kind;
    } rows[] = {
        { GRAPH_UNKNOWN_OPERATOR, DOCTOR_OPERATOR_UNKNOWN },
        { GRAPH_OPERATOR_TOO_NEW, DOCTOR_OPSET_TOO_OLD },
        { GRAPH_UNKNOWN_OPSET, DOCTOR_OPSET_TOO_NEW },
        { GRAPH_NO_PRODUCER, DOCTOR_VALUE_UNDEFINED },
        { GRAPH_ONE_CPU, DOCTOR_ONE_CPU },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_fault(error, rows[i].fault)) {
            report_text(doctor, rows[i].kind, path, error->text);
            return;
        }
    report_text(doctor, kind_of_text(path, error->text), path, error->text);
}

void doctor_check_imports(struct doctor *doctor)
{
    for (const graph_finding *found = doctor->model->findings.first; found != NULL; found = found->next) {
        const char *domain = found->n == NULL ? "" : found->n->info.domain.data;
        bool is_known = false;
        doctor_finding *finding;

        if (found->n == NULL || !is_fault(found, GRAPH_NOT_IMPORTED))
            continue;
        for (finding = doctor->first; finding != NULL; finding = finding->next)
            is_known = is_known || (finding->kind == DOCTOR_IMPORT_MISSING &&
                                    strcmp(finding->nodes[0]->info.domain.data, domain) == 0);
        if (is_known)
            continue;
        finding = doctor_add(doctor, DOCTOR_IMPORT_MISSING, doctor->model->main, NULL, INLAY_NONE,
                             "the model does not import domain '%.100s' of operator %.60s; version %lld is assumed",
                             domain, found->n->info.op_type.data, (long long)found->n->opset);
        if (finding == NULL)
            return;
        finding->nodes = arena_copy(&doctor->model->arena, &found->n, sizeof found->n);
        finding->node_count = finding->nodes != NULL;
        /* The operators of ai.onnx differ from opset to opset; operators of other domains hardly do. */
        finding->can_fix = finding->nodes != NULL && strcmp(domain, "ai.onnx") != 0;
    }
}

inlay_status doctor_diagnose(struct doctor *doctor, const char *path, const inlay_diag *why, inlay_diag *diag)
{
    missing_operator *missing = calloc(GROUPED, sizeof *missing);
    uint32_t count = 0;

    if (missing == NULL)
        return no_memory(diag, "for the findings");
    for (const graph_finding *error = doctor->model->findings.first; error != NULL; error = error->next) {
        if (error->status == INLAY_OK)
            continue;
        if (is_fault(error, GRAPH_NO_PLUGIN) && error->n != NULL && count < GROUPED)
            missing[count++] = classify_operator(error);
        else if (!is_fault(error, GRAPH_NO_PLUGIN))
            report_error(doctor, path, error);
    }
    for (uint32_t i = 0; i < count; i++)
        report_operators(doctor, missing, i, count);
    free(missing);
    if (why->code != INLAY_OK)
        report_text(doctor, kind_of_text(path, why->text), path, why->text);
    return doctor->failed ? no_memory(diag, "for the findings") : INLAY_OK;
}
