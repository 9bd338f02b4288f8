/* cli/doctor_report.h - what the report of a fault says of the machine: `inlay doctor --report`. */
#ifndef CLI_DOCTOR_REPORT_H
#define CLI_DOCTOR_REPORT_H
#include "cli/cli.h"

/* Prints version, system, processor, settings that differ from the defaults, and the state of each plugin file. It
 * prints only the last name of a path. Returns the exit code. */
int doctor_report(const cli_common *common);
#endif
