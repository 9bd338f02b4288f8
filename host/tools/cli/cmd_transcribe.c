/* inlay transcribe: the text of a sound. */
#include "cli/text_work.h"

typedef struct transcribe_args {
    const char *files[2]; /* the model, the sound */
    const char *variant, *language, *prompt;
    double temperature;
    bool translates, has_times;
} transcribe_args;

static const char doc[] =
    "Writes down the speech of a sound file with a model of the kind Whisper.\v"
    "FOLDER is a model as Hugging Face publishes it, with encoder_model.onnx and decoder_model_merged.onnx, or "
    "decoder_model.onnx with or without decoder_with_past_model.onnx. SOUND is a WAV file, or another that libsndfile "
    "reads. With --times, each line begins with the times of its segment, in seconds.\n\n"
    "Examples:\n"
    "  inlay transcribe whisper-tiny speech.wav\n"
    "  inlay transcribe whisper-tiny speech.flac --language de --times\n"
    "  inlay transcribe whisper-tiny speech.wav --translate --json\n";

static error_t take_file(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const char **files = field, **file = files[0] == NULL ? &files[0] : &files[1];

    (void)option;
    if (*file != NULL)
        cli_refuse(state, CLI_USAGE, "unexpected argument '%s': only one sound can be given", arg);
    *file = cli_input_file(state, arg);
    return 0;
}

static const cli_option own_options[] = {
    { "language", "CODE", "The language, such as en (default: the most probable one)",
      CLI_TEXT(transcribe_args, language) },
    { "translate", NULL, "Write the text in English", CLI_SET(transcribe_args, translates) },
    { "times", NULL, "Print the times of segments", CLI_SET(transcribe_args, has_times) },
    { "prompt", "TEXT", "A text that might come before", CLI_TEXT(transcribe_args, prompt) },
    { "temperature", "T", "0, the default: the most probable token", CLI_NUMBER(transcribe_args, temperature, 0, 1) },
    { "variant", "NAME", "Weights of a published folder: fp16, q8, q4 ...", CLI_TEXT(transcribe_args, variant) },
    { CLI_CALL(take_file, transcribe_args, files) },
    { .need = "a model and a sound are required: FOLDER and SOUND", CLI_CALL(take_file, transcribe_args, files[1]) },
    { 0 },
};

/* Prints the segments, or makes *out_json of the transcription. */
static inlay_status show(inlay_text_speech *speech, const inlay_text_transcript *made, bool as_json, bool has_times,
                         json_t **out_json, inlay_diag *diag)
{
    json_t *list = json_array();

    for (uint64_t i = 0; i < made->segment_count; i++) {
        inlay_text_segment segment = { .struct_size = sizeof segment };
        inlay_status status = inlay_text_speech_segment(speech, i, &segment, diag);

        if (status != INLAY_OK) {
            json_decref(list);
            return status;
        }
        if (as_json)
            (void)json_array_append_new(list, json_pack("{s:f, s:f, s:s}", "begin", segment.begin, "end", segment.end,
                                                        "text", cli_text(segment.text)));
        else if (has_times)
            (void)printf("%.2f\t%.2f\t%s\n", segment.begin, segment.end,
                         segment.text + (segment.text[0] == ' ' ? 1 : 0));
    }
    if (!as_json && !has_times)
        (void)printf("%s\n", made->text);
    *out_json = json_pack("{s:s, s:f, s:s, s:o}", "language", made->language, "seconds", made->seconds, "text",
                          cli_text(made->text), "segments", list);
    return INLAY_OK;
}

int cmd_transcribe(int argc, char **argv)
{
    static const cli_verb verb = { "FOLDER SOUND", doc, own_options, NULL };
    transcribe_args args = { .variant = NULL };
    inlay_text_sound sound = { .struct_size = sizeof sound };
    inlay_text_transcript made = { .struct_size = sizeof made };
    inlay_text_speech *speech = NULL;
    struct strbuf file = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    json_t *json = NULL;
    inlay_status status;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    cli_attach(&common);
    INLAY_TRY(text_work_bytes(args.files[1], &file, &diag));
    INLAY_TRY(inlay_text_speech_create(args.files[0], args.variant, common.options, &speech, &diag));
    cli_progress_clear();
    if (inlay_text_speech_warning(speech) != NULL)
        cli_write_line(&common, 1, inlay_text_speech_warning(speech));
    sound.file = file.size > 0 ? file.data : "";
    sound.bytes = file.size;
    sound.language = args.language;
    sound.prompt = args.prompt;
    sound.cancel = cli_cancel();
    sound.temperature = (float)args.temperature;
    sound.translates = args.translates;
    sound.has_times = args.has_times || common.json;
    INLAY_TRY(inlay_text_speech_transcribe(speech, &sound, &made, &diag));
    INLAY_TRY(show(speech, &made, common.json, args.has_times, &json, &diag));
    if (common.json)
        code = cli_print_json(&common, json, CLI_OK);
    else
        json_decref(json);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    inlay_text_speech_destroy(speech);
    strbuf_deinit(&file);
    cli_common_deinit(&common);
    return code;
}
