/* Finds the first region whose result differs from another version of inlay, or from another runtime. Both run the same
 * model file, in which all values that leave a region are outputs. */
#include "lock/lock.h"
#include "shared/agree.h"
#include "base/names.h"
#include "base/spawn.h"
#include "data/compare.h"
#include "data/scratch.h"
#include "data/value.h"
#include "data/view.h"
#include "inlay/check.h"
#include "session/session.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUT_BYTES = PATH_MAX + 16 };

struct search {
    const lock_other *other;
    const inlay_options *options;
    const struct samples *samples;
    inlay_value **values; /* of the first sample */
    struct scratch folder;
    char model[OUT_BYTES], inputs[OUT_BYTES], outputs[OUT_BYTES];
    inlay_session *session; /* of the model with more outputs */
    inlay_context *context;
};

static inlay_status make_folders(struct search *search, inlay_diag *diag)
{
    const inlay_status status = scratch_make_temporary(&search->folder, diag);

    if (status != INLAY_OK)
        return status;
    (void)snprintf(search->model, sizeof search->model, "%s/model.onnx", search->folder.dir);
    (void)snprintf(search->inputs, sizeof search->inputs, "%s/inputs", search->folder.dir);
    (void)snprintf(search->outputs, sizeof search->outputs, "%s/outputs", search->folder.dir);
    if (mkdir(search->inputs, 0700) != 0 || mkdir(search->outputs, 0700) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", search->folder.dir, strerror(errno));
    return INLAY_OK;
}

/* Names of values: all values of the model file; and among these, the values that leave regions. Passes create other
 * values, which no model with more outputs can have. */
struct cut {
    graph_model *model; /* owns the names */
    names_table in_file, chosen;
    const char **names; /* [count] */
    uint32_t count;
};

static inlay_status find_cut(const char *path, const struct program *program, struct cut *cut, inlay_diag *diag)
{
    inlay_status status;

    INLAY_TRY(model_load_path(path, NULL, &cut->model, diag));
    cut->names = calloc((size_t)cut->model->main->value_count + 1, sizeof *cut->names);
    if (cut->names == NULL)
        return no_memory(diag, "for the outputs of regions");
    for (uint32_t v = 0; v < cut->model->main->value_count; v++) {
        const inlay_str name = cut->model->main->values[v].info.name;

        if (name.bytes > 0 && !names_add(&cut->in_file, name.data, name.bytes, v, NULL))
            return no_memory(diag, "for the outputs of regions");
    }
    for (uint32_t i = 0; i < program->graph->output_count + program->step_count; i++) {
        const partition_region *region =
            i < program->graph->output_count ? NULL : program->steps[i - program->graph->output_count].region;

        for (uint32_t k = 0; k < (region == NULL ? 1 : region->output_count); k++) {
            const uint32_t value = region == NULL ? program->graph->outputs[i] : region->outputs[k];
            const inlay_value_info *info = &program->graph->values[value].info;
            const uint32_t at = names_find(&cut->in_file, info->name.data, info->name.bytes);
            uint32_t present = NAMES_NONE;

            if (at == NAMES_NONE || info->kind > INLAY_VALUE_TENSOR)
                continue;
            if (!names_add(&cut->chosen, info->name.data, info->name.bytes, at, &present))
                return no_memory(diag, "for the outputs of regions");
            if (present == NAMES_NONE)
                cut->names[cut->count++] = cut->model->main->values[at].info.name.data;
        }
    }
done:
    return status;
}

/* Writes the model with more outputs. */
static inlay_status write_model(const struct search *search, const char *model, const struct program *program,
                                inlay_diag *diag)
{
    inlay_extract_args work = INLAY_EXTRACT_ARGS_INIT;
    struct cut cut = { 0 };
    inlay_status status;

    INLAY_TRY(find_cut(model, program, &cut, diag));
    work.out_path = search->model;
    work.outputs = cut.names;
    work.output_count = cut.count;
    status = inlay_extract(model, search->options, &work, diag);
done:
    free((void *)cut.names);
    names_deinit(&cut.in_file);
    names_deinit(&cut.chosen);
    graph_model_destroy(cut.model);
    return status;
}

static inlay_status run_here(struct search *search, inlay_diag *diag)
{
    inlay_status status;

    INLAY_TRY(inlay_session_create(search->model, search->options, &search->session, diag));
    INLAY_TRY(inlay_context_create(search->session, &search->context, diag));
    INLAY_TRY(samples_load(search->samples, 0, &search->values, diag));
    for (uint32_t i = 0; i < inlay_session_input_count(search->samples->of); i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        INLAY_TRY(inlay_session_input(search->samples->of, i, &info));
        if (search->values[i] != NULL)
            INLAY_TRY(value_save(search->inputs, &info, search->values[i], diag));
    }
    status = samples_run(search->samples, search->values, search->session, search->context, diag);
done:
    return status;
}

/* bin/inlay of an installation, with the settings of the record. */
static const char **inlay_arguments(const struct search *search, const char *program)
{
    const size_t count = json_array_size(search->other->settings);
    const char *const fixed[] = { program,     "run",           search->model, "--inputs", search->inputs,
                                  "--outputs", search->outputs, "--values",    "0",        "--quiet" };
    const char **argv = calloc(sizeof fixed / sizeof fixed[0] + 2 * count + 1, sizeof *argv);
    size_t used = 0;

    if (argv == NULL)
        return NULL;
    for (; used < sizeof fixed / sizeof fixed[0]; used++)
        argv[used] = fixed[used];
    for (size_t i = 0; i < count; i++) {
        argv[used++] = "--option";
        argv[used++] = json_string_value(json_array_get(search->other->settings, i));
    }
    return argv;
}

static inlay_status run_there(const struct search *search, inlay_diag *diag)
{
    static const char prefix[] = "command:";
    const char *named = search->other->program;
    const bool is_command = strncmp(named, prefix, sizeof prefix - 1) == 0;
    const spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO } };
    char program[OUT_BYTES], line[PATH_MAX];
    const char *const shell[] = { "/bin/sh", "-c", line, "sh", search->model, search->inputs, search->outputs, NULL };
    const char **argv = NULL;
    pid_t child = -1;
    int code;

    (void)snprintf(program, sizeof program, "%s/bin/inlay", named);
    if (is_command && (size_t)snprintf(line, sizeof line, "%s \"$@\"", named + sizeof prefix - 1) >= sizeof line)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--against: the command is too long");
    if (!is_command && access(program, X_OK) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "--against %s: there is no program %s; name the folder of an installation, or "
                          "command:COMMAND",
                          named, program);
    argv = is_command ? NULL : inlay_arguments(search, program);
    if (!is_command && argv == NULL)
        return no_memory(diag, "to start %s", program);
    code = spawn_start(&(spawn_args){ is_command ? shell : argv, fds, 2, true, false, NULL }, &child);
    free((void *)argv);
    if (code != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--against %s: %s", named, strerror(code));
    code = spawn_wait(child, 0, search->other->stop);
    if (search->other->stop != NULL && search->other->stop())
        return inlay_fail(diag, INLAY_CANCELLED, "stopped");
    return code == 0 ? INLAY_OK
                     : inlay_fail(diag, INLAY_IO_ERROR,
                                  "--against %s: it ended with exit code %d; it printed the reason above", named, code);
}

/* The largest error of a value, relative to its largest element; INFINITY: another type or shape, or not finite.
 * Negative: the other version has not written it. */
static inlay_status value_error(const struct search *search, uint32_t output, const inlay_io_info *info,
                                double *out_error, inlay_diag *diag)
{
    const inlay_value *value = inlay_context_output(search->context, output);
    struct agree agree = { .metric = AGREE_cosine };
    inlay_value *want = NULL;
    inlay_tensor_view here, there;
    double largest;
    inlay_status status = value_load_named(search->outputs, info, &want, diag);

    *out_error = -1;
    if (status == INLAY_OK && want != NULL && value != NULL && value_view(value, &here) && value_view(want, &there)) {
        largest = compare_largest(&there, inlay_value_count(want));
        *out_error =
            info->dtype == INLAY_STRING || agree_add(&agree, &there, &here, NULL) != INLAY_OK || agree.broken > 0
                ? INFINITY
            : agree.max_error == 0 ? 0
                                   : agree.max_error / fmax(largest, 1e-30);
    }
    inlay_value_unref(want);
    return status;
}

static json_t *nodes_json(const struct program *program, const partition_region *region)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < region->node_count; i++) {
        const inlay_node_info *node = &program->graph->nodes[region->nodes[i]]->info;

        (void)json_array_append_new(list, json_sprintf("%s '%s'", node->op_type.data, node->name.data));
    }
    return list;
}

/* Compares the outputs of all regions in execution order. */
static inlay_status compare_regions(const struct search *search, json_t **out, inlay_diag *diag)
{
    const struct program *program = search->session->main;
    double error, before = 0;
    uint32_t values = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < program->step_count; i++) {
        const program_step *step = &program->steps[i];

        for (uint32_t k = 0; k < step->region->output_count; k++) {
            const char *name = program->graph->values[step->region->outputs[k]].info.name.data;
            const uint32_t output = inlay_session_find_output(search->session, name);
            inlay_io_info info = { .struct_size = sizeof info };

            if (output == INLAY_NONE || inlay_session_output(search->session, output, &info) != INLAY_OK)
                continue;
            INLAY_TRY(value_error(search, output, &info, &error, diag));
            values += error >= 0;
            if (error > search->other->limit) {
                *out = json_pack("{s:s, s:o, s:I, s:s, s:o, s:f, s:I}", "value", name, "relative",
                                 value_number_json(error), "region", (json_int_t)i, "provider",
                                 step->provider != NULL ? step->provider->name : "the host", "nodes",
                                 nodes_json(program, step->region), "before", before, "values", (json_int_t)values);
                return *out != NULL ? INLAY_OK : no_memory(diag, "for the result");
            }
            before = fmax(before, error);
        }
    }
    if (values == 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "--against %s: it has written no output that can be compared",
                          search->other->program);
    *out = json_pack("{s:f, s:I}", "before", before, "values", (json_int_t)values);
    if (*out == NULL)
        return no_memory(diag, "for the result");
done:
    return status;
}

inlay_status lock_against(const lock_other *other, const char *model, const inlay_options *options,
                          const struct samples *samples, json_t **out, inlay_diag *diag)
{
    struct search search = { .other = other, .options = options, .samples = samples };
    inlay_status status;

    *out = NULL;
    INLAY_TRY(make_folders(&search, diag));
    INLAY_TRY(write_model(&search, model, samples->of->main, diag));
    INLAY_TRY(run_here(&search, diag));
    INLAY_TRY(run_there(&search, diag));
    INLAY_TRY(compare_regions(&search, out, diag));
done:
    samples_release(samples, search.values);
    inlay_context_destroy(search.context);
    inlay_session_destroy(search.session);
    scratch_remove(&search.folder);
    return status;
}
