/* cli/outputs.h - no verb replaces a file that it reads: the rules for base/output.h. Files are compared by device and
 * inode, so links and other names of a file are recognised. Exception: the result of a verb that writes a new version
 * of MODEL may replace MODEL, together with its file of tensors; the new files are complete before. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H
#include "inlay/status.h"

/* main() calls it before files are read. */
void outputs_protect(void);

/* The parsers of options report the files that a verb will write: `path` of --option; the same for a result that may
 * replace MODEL; the name of the file of tensors in the folder of -o. The texts live on. */
void outputs_add(const char *option, const char *path);
void outputs_add_version(const char *option, const char *path);
void outputs_set_external(const char *name);
/* MODEL, which is a file. */
void outputs_set_model(const char *path);
/* After all are parsed, and again after a model is loaded: each output is a file of its own, and none is an input that
 * is known by now. */
INLAY_NODISCARD inlay_status outputs_check(inlay_diag *diag);
#endif
