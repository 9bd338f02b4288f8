/* inlay generate: continues a text with a language model. */
#include "cli/screen.h"
#include "cli/text_work.h"

static const char doc_generate[] =
    "Continues a text with a language model, and prints the continuation as it is generated.\v"
    "MODEL is a decoder with states (an .onnx or .gguf file, or a published folder) with its tokenizer in the file or "
    "the folder. Without --prompt, the text is read from standard input. The defaults of sampling parameters are those "
    "of the model's generation_config.json. inlay chat formats messages by the model's chat template.\n\n"
    "Examples:\n"
    "  inlay generate model.gguf --prompt 'The capital of France is'\n"
    "  inlay generate model.gguf --prompt 'A person: ' --schema person.json\n"
    "  inlay generate model/ --variant q4 -n 100 --seed 1 < text.txt\n";

static const cli_option options_of_generate[] = {
    { "prompt", "TEXT", "The text to continue", CLI_TEXT(text_args, prompt), .key = 'p' },
    { "rendered", NULL, "The text has its special tokens already", CLI_SET(text_args, is_rendered) },
    TEXT_OPTIONS,
    CLI_TEXT_MODEL(text_args, model),
    { 0 },
};

int cmd_generate(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_generate, options_of_generate, text_finish };
    text_args args = TEXT_ARGS_INIT;
    struct strbuf files[2] = { { 0 } }, prompt = { 0 }, said = { 0 };
    inlay_text_model *model = NULL;
    inlay_text_request request;
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    inlay_status status;
    json_t *facts = NULL;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    INLAY_TRY(text_work_request(&args, &request, files, &diag));
    INLAY_TRY(text_work_open(&common, &args, &model, &diag));
    cli_progress_clear();
    if (!common.json)
        screen_end();
    if (args.prompt == NULL)
        INLAY_TRY(text_work_read("-", &prompt, &diag));
    request.prompt = args.prompt != NULL ? args.prompt : prompt.data;
    INLAY_TRY(text_work_run(model, &request, !common.json, cli_cancelled, &said, &facts, &diag));
    if (common.json)
        code = cli_print_json(&common, facts, CLI_OK);
    else if (said.size == 0 || said.data[said.size - 1] != '\n')
        (void)printf("\n");
    if (!common.json)
        json_decref(facts);
    if (cli_cancelled())
        code = CLI_CANCELLED;
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    inlay_text_model_destroy(model);
    strbuf_deinit(&files[0]);
    strbuf_deinit(&files[1]);
    strbuf_deinit(&prompt);
    strbuf_deinit(&said);
    cli_common_deinit(&common);
    return code;
}
