/* inlay pipe: adds preprocessing and postprocessing steps to a model, so that it takes images, sound or text. */
#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/load_model.h"
#include "session/session.h"
#include "data/scratch.h"
#include "pipe/pipe.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char doc_pipe[] =
    "Adds steps to MODEL, those of --pre before an input and those of --post after an output, and writes the result as "
    "one model.\v"
    "Steps are separated by commas, the arguments of a step by colons. Before a model: decode[:bgr|grey], "
    "resize[:H|HxW][:inside=HxW|cover=HxW][:filter=NAME][:multiple=N][:shrink], letterbox[:HxW][:fill=N], crop[:HxW], "
    "color:SPACE[:from=SPACE], normalise[:half|unit|imagenet|raw][:mean=A/B/C][:std=A/B/C][:scale=X], audio[:RATE], "
    "mel[:whisper|librosa][:rate=N][:n_fft=N][:hop=N][:mels=N][:samples=N], tokenize:FILE[:max=N]. After a model: "
    "softmax, topk[:K][:LABELS], ctc:ALPHABET[:beam=N][:blank=N], detokenize:FILE, "
    "boxes[:v8|v5|end|detr][:score=X][:iou=X][:most=N][:labels=FILE], image[:PRESET], resize, crop, color, "
    "encode[:png|jpg|webp|bmp|ppm]. `inlay pipe --steps` describes each step. Sizes that are not given are taken from "
    "the model's input. Files of labels, alphabets and tokenizers become part of the result. The result runs "
    "wherever the plugin prepost is installed.\n\n"
    "Examples:\n"
    "  inlay pipe ocr.onnx --pre 'decode:bgr,resize:48,normalise' --post 'ctc:keys.txt' -o whole.onnx\n"
    "  inlay pipe classify.onnx --pre 'decode,resize:cover=256x256,crop:224,normalise:imagenet' --post "
    "'softmax,topk:5:labels.txt' -o whole.onnx\n"
    "  inlay pipe yolo.onnx --pre 'decode,letterbox,normalise:unit' --post boxes -o whole.onnx\n"
    "  inlay run whole.onnx --input file=picture.jpg\n"
    "  inlay pipe encoder.onnx --pre 'audio,mel:whisper' -o whole.onnx\n"
    "  inlay pipe whisper.onnx --pre 'audio,mel:whisper' --post detokenize:tokenizer.json -o whole.onnx\n"
    "  inlay pipe bert.onnx --pre 'tokenize:tokenizer.json:max=128' -o whole.onnx\n";

typedef struct pipe_args {
    cli_files files;
    pipe_request request;
} pipe_args;

static void print_steps(void)
{
    for (int i = 0; pipe_steps[i] != NULL; i++) {
        const char *tab = strchr(pipe_steps[i], '\t');

        (void)printf("%.*s\n    %s\n", (int)(tab - pipe_steps[i]), pipe_steps[i], tab + 1);
    }
}

static error_t show_steps(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    (void)option;
    (void)field;
    (void)arg;
    (void)state;
    screen_begin();
    print_steps();
    exit(0);
}

static const cli_option options_of_pipe[] = {
    { "pre", "STEPS", "Steps before the model", CLI_TEXT(pipe_args, request.pre) },
    { "post", "STEPS", "Steps after the model", CLI_TEXT(pipe_args, request.post) },
    { "input", "NAME", "The input that --pre produces (default: the first; for tokenize: input_ids)",
      CLI_TEXT(pipe_args, request.input) },
    CLI_FILE_OPTIONS(pipe_args, files),
    { "result", "NAME", "The output that --post reads (default: the first)", CLI_TEXT(pipe_args, request.output) },
    { "steps", NULL, "Print what each step does, and exit", CLI_CALL_ALL(show_steps) },
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const pipe_args *args = user;

    if (args->request.pre == NULL && args->request.post == NULL)
        cli_refuse(state, CLI_USAGE, "no steps given: name them with --pre, --post or both");
    return true;
}

static json_t *name_list(const struct graph *graph, const uint32_t *values, uint32_t count)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_string(graph->values[values[i]].info.name.data));
    return list;
}

/* Writes the combined model to a temporary file, validates it as a session would, and moves it to the output. */
static inlay_status join(const pipe_args *args, const cli_common *common, json_t **out_result, inlay_diag *diag)
{
    const model_load_options load = session_load_options(common->options), load_piped = { .out_fault = NULL };
    graph_model *model = NULL, *whole = NULL;
    struct scratch scratch = { .dir = "" };
    inlay_diag why = INLAY_DIAG_INIT;
    char path[PATH_MAX];
    uint64_t bytes = 0;
    inlay_status status;

    INLAY_TRY(model_load_path(args->files.model, &load, &model, diag));
    INLAY_TRY(pipe_join(model, &args->request, diag));
    INLAY_TRY(scratch_make(args->files.output, args->files.external, &scratch, diag));
    INLAY_TRY(scratch_save(&scratch, "piped", model, false, path, diag));
    status = cli_load_model(common, path, &load_piped, &whole, &why);
    if (status != INLAY_OK) {
        status = inlay_fail(diag, status, "the steps do not fit the model: %s", why.text);
        goto done;
    }
    if (cli_cancelled()) {
        status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
        goto done;
    }
    INLAY_TRY(scratch_publish(&scratch, path, &bytes, diag));
    *out_result = json_pack("{s:s, s:s, s:I, s:o, s:o}", "model", cli_text(args->files.model), "output",
                            cli_text(args->files.output), "bytes", (json_int_t)bytes, "inputs",
                            name_list(whole->main, whole->main->inputs, whole->main->input_count), "outputs",
                            name_list(whole->main, whole->main->outputs, whole->main->output_count));
done:
    cli_progress_clear();
    scratch_remove(&scratch);
    graph_model_destroy(whole);
    graph_model_destroy(model);
    return status;
}

static void print_names(const char *what, const json_t *list)
{
    size_t i;
    json_t *name;

    (void)printf("%s:", what);
    json_array_foreach(list, i, name)
        (void)printf("%s %s", i > 0 ? "," : "", json_string_value(name));
    (void)printf("\n");
}

int cmd_pipe(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_pipe, options_of_pipe, finish };
    static pipe_args args;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    json_t *result = NULL;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_CHECK, argc, argv, &common, &args);
    if (join(&args, &common, &result, &diag) != INLAY_OK) {
        code = cli_fail(&common, &diag);
    } else if (common.json) {
        code = cli_print_json(&common, json_incref(result), CLI_OK);
    } else {
        (void)printf("%s written\n", args.files.output);
        print_names("inputs", json_object_get(result, "inputs"));
        print_names("outputs", json_object_get(result, "outputs"));
    }
    json_decref(result);
    cli_common_deinit(&common);
    return code;
}
