/* inlay verify-run: computes a region of a committed run again. */
#include "base/output.h"
#include "cli/cli.h"
#include "lock/proof.h"
#include "tables/words.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static const char doc_verify_run[] =
    "Computes one region of a run again, from the tensors of PROOF that enter it, and says whether those that leave it "
    "have the hashes of the proof.\v"
    "PROOF is the folder that `inlay run --commit` has written, or proof.json with the tensors of some regions. The "
    "settings are those of the proof. The CPU may be another one. The exit code is 1 if a region does not hold, or if "
    "the proof or the model was changed.\n\n"
    "Examples:\n"
    "  inlay verify-run run.proof\n"
    "  inlay verify-run run.proof --region 3\n"
    "  inlay verify-run run.proof --region all --model copy.onnx\n";

typedef struct verify_run_args {
    const char *proof, *model, *region, *outputs;
} verify_run_args;

static const cli_option options_of_verify_run[] = {
    { "region", "N|random|all", "The region to compute, from 0 (default: random)", CLI_TEXT(verify_run_args, region) },
    { "model", "FILE", "The model (default: the path in the proof)", CLI_READ(verify_run_args, model) },
    { "outputs", "DIR", "Write the tensors that leave the region to DIR/<name>.npy; DIR may be new",
      CLI_TEXT(verify_run_args, outputs) },
    { .need = "no proof given: name the folder of inlay run --commit",
      CLI_CALL(cli_take_path, verify_run_args, proof) },
    { 0 },
};

/* The regions to compute: [*out_first, *out_end). */
static inlay_status choose(const char *text, uint32_t count, uint32_t *out_first, uint32_t *out_end, inlay_diag *diag)
{
    char *end = NULL;
    unsigned long number;
    uint64_t random;

    *out_first = 0;
    *out_end = count;
    if (text != NULL && strcmp(text, "all") == 0)
        return INLAY_OK;
    if (text == NULL || strcmp(text, "random") == 0) {
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return inlay_fail(diag, INLAY_IO_ERROR, "no random number: %s; choose a region with --region N",
                              strerror(errno));
        *out_first = (uint32_t)(random % count);
    } else {
        errno = 0;
        number = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number >= count)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--region %.40s: the proof has the regions 0 to %u", text,
                              count - 1);
        *out_first = (uint32_t)number;
    }
    *out_end = *out_first + 1;
    return INLAY_OK;
}

/* Computes the regions, and prints a line for each, or adds it to `list`. *out_wrong: how many do not hold. */
static inlay_status check_regions(proof_file *proof, const verify_run_args *args, const cli_common *common,
                                  uint32_t first, uint32_t end, json_t *list, uint32_t *out_wrong, inlay_diag *diag)
{
    *out_wrong = 0;
    if (args->outputs != NULL && mkdir(args->outputs, 0777) != 0 && errno != EEXIST)
        return output_not_created(args->outputs, diag);
    for (uint32_t region = first; region < end; region++) {
        uint32_t nodes = 0;
        const inlay_status status = proof_check(proof, region, args->outputs, &nodes, diag);
        const bool holds = status == INLAY_OK;

        if (!holds && status != INLAY_RESULTS_DIFFER)
            return status;
        *out_wrong += !holds;
        if (common->json)
            (void)json_array_append_new(list,
                                        json_pack("{s:i, s:i, s:b, s:s*}", "region", (int)region, "nodes", (int)nodes,
                                                  "holds", holds, "why", holds ? NULL : cli_text(diag->text)));
        else
            (void)printf("region %u of %u %s: %u %s%s%s\n", region, proof->run.count, holds ? "holds" : "does not hold",
                         nodes, plural(nodes, "node", "nodes"), holds ? "" : "; ", holds ? "" : diag->text);
    }
    return INLAY_OK;
}

int cmd_verify_run(int argc, char **argv)
{
    static const cli_verb verb = { "PROOF", doc_verify_run, options_of_verify_run, NULL };
    verify_run_args args = { .proof = NULL };
    json_t *list = NULL;
    proof_file proof = { .folder = NULL };
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    uint32_t first, end, wrong = 0;
    int code = CLI_OK;
    inlay_status status;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    list = json_array();
    INLAY_TRY(proof_open(args.proof, args.model, common.options, &proof, &diag));
    INLAY_TRY(choose(args.region, proof.run.count, &first, &end, &diag));
    INLAY_TRY(check_regions(&proof, &args, &common, first, end, list, &wrong, &diag));
    code = wrong > 0 ? CLI_FAILED : CLI_OK;
    if (common.json)
        code = cli_print_json(
            &common,
            json_pack("{s:s, s:i, s:O}", "sha256", proof.root, "regions", (int)proof.run.count, "checked", list), code);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    proof_deinit(&proof);
    json_decref(list);
    cli_common_deinit(&common);
    return code;
}
