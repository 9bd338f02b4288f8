#include "data/picture.h"
#include "base/memory.h"
#include "data/raw.h"
#include "data/scratch.h"
#include "pipe/pipe.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct picture_reader {
    inlay_session *session; /* from the bytes of a file to the value */
    inlay_context *context;
    char steps[256];
};

bool picture_is_file(const char *path)
{
    static const char *const suffixes[] = { ".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff",
                                            ".bmp", ".ppm", ".pgm",  ".pbm",  ".pnm", ".jp2" };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot != NULL && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcasecmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

/* The axis of the channels; INLAY_NONE: none has one or three. */
static uint32_t channel_axis(const inlay_io_info *info)
{
    for (uint32_t i = 0; i < 2 && (info->rank == 3 || info->rank == 4); i++) {
        const uint32_t axis = i == 0 ? info->rank - 3 : info->rank - 1;

        if (info->dims[axis] == 1 || info->dims[axis] == 3)
            return axis;
    }
    return INLAY_NONE;
}

bool picture_fits(const inlay_io_info *info)
{
    return info->kind == INLAY_KIND_TENSOR && channel_axis(info) != INLAY_NONE &&
           (info->dtype == INLAY_FLOAT || info->dtype == INLAY_FLOAT16 || info->dtype == INLAY_BFLOAT16 ||
            info->dtype == INLAY_DOUBLE || info->dtype == INLAY_UINT8);
}

/* Whether the metadata are those that Ultralytics writes: its models read pictures in a frame, from 0 to 1. */
static bool is_detector(const inlay_session *session)
{
    bool task = false, stride = false;
    const char *key, *value;

    for (uint32_t i = 0; inlay_session_metadata(session, i, &key, &value) == INLAY_OK; i++) {
        task |= strcmp(key, "task") == 0 && strcmp(value, "classify") != 0;
        stride |= strcmp(key, "stride") == 0;
    }
    return task && stride;
}

static void choose_steps(const inlay_session *session, const inlay_io_info *info, char *text, size_t bytes)
{
    const uint32_t channels = channel_axis(info);
    const uint32_t rows = channels == info->rank - 3 ? info->rank - 2 : info->rank - 3;
    const int64_t height = info->dims[rows], width = info->dims[rows + 1];
    const bool grey = info->dims[channels] == 1, detector = is_detector(session);
    char size[128] = "";

    if (height > 0 && width > 0 && detector)
        (void)snprintf(size, sizeof size, ",letterbox:%lldx%lld", (long long)height, (long long)width);
    else if (height > 0 && width > 0)
        (void)snprintf(size, sizeof size, ",resize:cover=%lldx%lld,crop:%lldx%lld", (long long)height, (long long)width,
                       (long long)height, (long long)width);
    (void)snprintf(text, bytes, "decode:%s%s,normalise:%s", grey ? "grey" : "rgb", size,
                   info->dtype == INLAY_UINT8 ? "raw"
                   : grey || detector         ? "unit"
                                              : "mean=0.485/0.456/0.406:std=0.229/0.224/0.225");
}

/* A model that passes its input on, so that steps can be put before it. */
static inlay_status make_model(const inlay_io_info *info, graph_model **out, inlay_diag *diag)
{
    graph_model *model = graph_model_create();
    graph_node *node = model != NULL ? graph_add_node(model->main, "Identity", "", NULL, 1, 1) : NULL;
    uint32_t *values = model != NULL ? arena_array(&model->arena, 2, sizeof *values) : NULL;
    inlay_dim *dims = model != NULL ? arena_array(&model->arena, info->rank, sizeof *dims) : NULL;

    *out = model;
    if (node == NULL || values == NULL || dims == NULL || !graph_model_import(model, "", 17))
        return no_memory(diag, "for a model that reads pictures");
    for (uint32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i] >= 0 ? (inlay_dim){ .value = info->dims[i], .kind = INLAY_DIM_FIXED }
                                     : (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
    for (uint32_t i = 0; i < 2; i++) {
        graph_value *value;

        values[i] = graph_add_value(model->main, i == 0 ? "numbers" : "result", i == 0 ? 7 : 6);
        if (values[i] == INLAY_NONE)
            return no_memory(diag, "for a model that reads pictures");
        value = &model->main->values[values[i]];
        value->info.kind = INLAY_VALUE_TENSOR;
        value->info.dtype = value->declared_dtype = info->dtype;
        value->info.rank = value->declared_rank = info->rank;
        value->info.dims = value->declared_dims = dims;
        value->declared = true;
    }
    ((uint32_t *)(uintptr_t)node->info.inputs)[0] = values[0];
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = values[1];
    model->ir_version = 8;
    model->main->inputs = values;
    model->main->outputs = values + 1;
    model->main->input_count = model->main->output_count = 1;
    return INLAY_OK;
}

static inlay_status copy_option(const inlay_options *from, const char *name, inlay_options *to, inlay_diag *diag)
{
    size_t bytes = 0;
    char *text = NULL;
    inlay_status status = from != NULL ? inlay_options_get(from, name, NULL, 0, &bytes, diag) : INLAY_OK;

    if (status == INLAY_OK && bytes > 0) {
        text = malloc(bytes);
        status = text == NULL ? no_memory(diag, "for option %s", name)
                              : inlay_options_get(from, name, text, bytes, NULL, diag);
    }
    if (status == INLAY_OK && text != NULL)
        status = inlay_options_set(to, name, text, diag);
    free(text);
    return status;
}

inlay_status picture_open(const inlay_session *session, const inlay_io_info *info, const inlay_options *options,
                          struct picture_reader **out_reader, inlay_diag *diag)
{
    static const char *const kept[] = { "plugin_dirs", "plugin_allow", "cache_dir" };
    struct picture_reader *reader = calloc(1, sizeof *reader);
    struct scratch scratch = { .dir = "" };
    pipe_request request = { .pre = NULL };
    graph_model *model = NULL;
    inlay_options *own = NULL;
    inlay_diag why = INLAY_DIAG_INIT;
    char path[PATH_MAX];
    inlay_status status;

    *out_reader = NULL;
    if (reader == NULL)
        return no_memory(diag, "for a picture");
    choose_steps(session, info, reader->steps, sizeof reader->steps);
    request.pre = reader->steps;
    INLAY_TRY(make_model(info, &model, diag));
    INLAY_TRY(pipe_join(model, &request, diag));
    INLAY_TRY(inlay_options_create(&own, diag));
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        INLAY_TRY(copy_option(options, kept[i], own, diag));
    INLAY_TRY(scratch_make("/dev/null", NULL, &scratch, diag)); /* no regular file: in the folder for temporary ones */
    INLAY_TRY(scratch_save(&scratch, "picture", model, false, path, diag));
    status = inlay_session_create(path, own, &reader->session, &why);
    if (status != INLAY_OK) {
        status =
            inlay_fail(diag, status, "input '%s': pictures are read by the plugin prepost: %s", info->name, why.text);
        goto done;
    }
    INLAY_TRY(inlay_context_create(reader->session, &reader->context, diag));
    *out_reader = reader;
    reader = NULL;
done:
    scratch_remove(&scratch);
    graph_model_destroy(model);
    inlay_options_destroy(own);
    picture_close(reader);
    return status;
}

void picture_close(struct picture_reader *reader)
{
    if (reader == NULL)
        return;
    inlay_context_destroy(reader->context);
    inlay_session_destroy(reader->session);
    free(reader);
}

const char *picture_steps(const struct picture_reader *reader)
{
    return reader->steps;
}

inlay_status picture_load(struct picture_reader *reader, const char *path, inlay_value **out_value, inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_value *bytes = NULL;
    inlay_status status;

    *out_value = NULL;
    INLAY_TRY(inlay_session_input(reader->session, 0, &info));
    INLAY_TRY(raw_load(path, &info, &bytes, diag));
    INLAY_TRY(inlay_context_set_input(reader->context, 0, bytes, diag));
    status = inlay_context_run(reader->context, NULL, &why);
    if (status != INLAY_OK) {
        status = inlay_fail(diag, status, "%s: %s", path, why.text);
        goto done;
    }
    *out_value = inlay_value_ref(inlay_context_output(reader->context, 0));
done:
    inlay_value_unref(bytes);
    return status;
}
