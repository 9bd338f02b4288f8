/* cli/explain_errors.h - inlay explain --errors: what each matrix multiplication changes in a cheaper arithmetic. */
#ifndef CLI_EXPLAIN_ERRORS_H
#define CLI_EXPLAIN_ERRORS_H
#include "cli/cli.h"

typedef struct explain_errors_args {
    const char *model, *data, *save; /* data, save: may be NULL */
    uint32_t samples;                /* 0: all */
} explain_errors_args;

INLAY_NODISCARD inlay_status explain_errors(const explain_errors_args *args, cli_common *common, inlay_diag *diag);
#endif
