/* cli/doctor_repair.h - inlay doctor --fix of a model that does not load. */
#ifndef CLI_DOCTOR_REPAIR_H
#define CLI_DOCTOR_REPAIR_H
#include "cli/cli.h"

typedef struct doctor_repair_result {
    uint32_t casts; /* inserted nodes */
    int64_t opset;  /* of ai.onnx after it was raised; 0: it was not */
    uint64_t bytes; /* size of the written file */
} doctor_repair_result;

/* Writes a model that loads, if inserting the only possible Casts and raising the opset achieve that.
 * INLAY_UNSUPPORTED: they do not; nothing is written, and the message has the first remaining error. */
INLAY_NODISCARD inlay_status doctor_repair(const cli_common *common, const char *model, const char *output,
                                           const char *external, doctor_repair_result *out, inlay_diag *diag);
#endif
