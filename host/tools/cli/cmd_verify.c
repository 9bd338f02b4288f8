/* inlay verify: checks the signature of a model. */
#include "shared/signing.h"
#include "cli/cli.h"

static const char doc_verify[] =
    "Checks that a key signed MODEL or a folder, and that no file has been changed, added or removed.\v"
    "The signature is that of `inlay sign`, MODEL.sig or FOLDER/model.sig. The exit code is 1 if the model is not the "
    "signed one, and 3 if it has no signature.\n\n"
    "Examples:\n"
    "  inlay verify model.onnx --key pub.pem\n"
    "  inlay verify models/ --key pub.pem\n";

typedef struct verify_args {
    const char *model, *key, *signature;
} verify_args;

static const cli_option options_of_verify[] = {
    { "key", "FILES", "The public key, ed25519 in PEM; of several, separated by commas, one suffices",
      CLI_TEXT(verify_args, key), .need = "no key given: name its file with --key" },
    { "signature", "FILE", "The signature (default: MODEL.sig, or FOLDER/model.sig)",
      CLI_TEXT(verify_args, signature) },
    CLI_PATH(verify_args, model),
    { 0 },
};

int cmd_verify(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_verify, options_of_verify, NULL };
    verify_args args = { .model = NULL };
    signing_report report;
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    if (signing_check(args.model, args.signature, args.key, &report, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (common.json)
        code = cli_print_json(&common,
                              json_pack("{s:s, s:i, s:I}", "signature", report.path, "files", (int)report.file_count,
                                        "bytes", (json_int_t)report.bytes),
                              CLI_OK);
    else
        (void)printf("%s: verified, %u file%s of %.2f MiB\n", args.model, report.file_count,
                     report.file_count == 1 ? "" : "s", (double)report.bytes / 1048576);
    cli_common_deinit(&common);
    return code;
}
