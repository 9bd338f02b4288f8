/* inlay sign: signs the files of a model. */
#include "base/memory.h"
#include "shared/signing.h"
#include "cli/cli.h"
#include "model/model.h"
#include <stdlib.h>
#include <string.h>

static const char doc_sign[] =
    "Signs MODEL with its external data, or every file in a folder: the model, tokenizer, configuration.\v"
    "The signature has the SHA-256 digest of each file, in the format of OpenSSF's model signing (in-toto, DSSE). "
    "It is written to MODEL.sig or FOLDER/model.sig; `inlay verify` and a server with --model-trust check it. "
    "Symbolic links in a folder are refused. Keys are made by:\n\n"
    "  openssl genpkey -algorithm ed25519 -out key.pem\n"
    "  openssl pkey -in key.pem -pubout -out pub.pem\n\n"
    "Examples:\n"
    "  inlay sign model.onnx --key key.pem\n"
    "  inlay sign models/ --key key.pem\n";

typedef struct sign_args {
    const char *model, *key, *output;
} sign_args;

static const cli_option options_of_sign[] = {
    { "key", "FILE", "The private key, ed25519 in PEM", CLI_TEXT(sign_args, key),
      .need = "no key given: name its file with --key" },
    { "output", "FILE", "The signature (default: MODEL.sig, or FOLDER/model.sig)", CLI_WRITE(sign_args, output),
      .key = 'o' },
    CLI_PATH(sign_args, model),
    { 0 },
};

/* The files of external data of a model. */
struct locations {
    char **list; /* [count] owned */
    uint32_t count;
    bool failed;
};

/* model_load_options.each_external */
static void add_location(void *user, const char *location)
{
    struct locations *locations = user;

    if (!LIST_GROW(locations->list, locations->count) || (locations->list[locations->count] = strdup(location)) == NULL)
        locations->failed = true;
    else
        locations->count++;
}

int cmd_sign(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_sign, options_of_sign, NULL };
    struct locations locations = { .list = NULL };
    const model_load_options options = { .each_external = add_location, .external_user = &locations };
    sign_args args = { .model = NULL };
    graph_model *model = NULL;
    signing_report report;
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    inlay_status status = INLAY_OK;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    if (!signing_is_folder(args.model)) {
        INLAY_TRY(model_load_path(args.model, &options, &model, &diag));
        if (locations.failed) {
            status = no_memory(&diag, "for the names of external files");
            goto done;
        }
    }
    INLAY_TRY(signing_write(args.model, (const char *const *)locations.list, locations.count, args.key, args.output,
                            &report, &diag));
    if (common.json)
        code = cli_print_json(&common,
                              json_pack("{s:s, s:i, s:I}", "signature", report.path, "files", (int)report.file_count,
                                        "bytes", (json_int_t)report.bytes),
                              CLI_OK);
    else
        (void)printf("signed %u file%s of %.2f MiB, written to %s\n", report.file_count,
                     report.file_count == 1 ? "" : "s", (double)report.bytes / 1048576, report.path);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    for (uint32_t i = 0; i < locations.count; i++)
        free(locations.list[i]);
    free(locations.list);
    graph_model_destroy(model);
    cli_common_deinit(&common);
    return code;
}
