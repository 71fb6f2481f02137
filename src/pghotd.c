/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"
#include "bus_listen.h"
#include "cleanup.h"
#include "clock.h"
#include "daemon.h"
#include "first_minute.h"
#include "helper.h"
#include "log.h"
#include "nodeset.h"
#include "parse.h"
#include "simulate.h"
#include "source_cpus.h"

#define FIRST_MINUTE_SECONDS 60
#define SAMPLE_RATE_DEFAULT  100000U /* kernel/events/core.c, DEFAULT_MAX_SAMPLE_RATE */

enum action {
	ACTION_RUN,
	ACTION_CHECK_CONFIG,
	ACTION_LIST_SOURCES,
	ACTION_RESTORE,
	ACTION_HELPER,
	ACTION_PRINT_DEFAULTS,
	ACTION_HAS_TIERS,
	ACTION_FIRST_MINUTE,
	ACTION_SIMULATE,
};

enum {
	OPT_FOREGROUND = 256,
	OPT_MODE,
	OPT_CHECK_CONFIG,
	OPT_LIST_SOURCES,
	OPT_RESTORE,
	OPT_HELPER,
	OPT_USER,
	OPT_SET,
	OPT_PRINT_DEFAULTS,
	OPT_HAS_TIERS,
	OPT_FIRST_MINUTE,
	OPT_FOR,
	OPT_ROOT,
	OPT_RUN_DIR,
	OPT_SIMULATE,
	OPT_POLICY,
	OPT_JSON,
	OPT_PLOT,
	OPT_VERSION,
};

static const struct option arg_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "foreground", no_argument, NULL, OPT_FOREGROUND },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "set", required_argument, NULL, OPT_SET },
	{ "check-config", no_argument, NULL, OPT_CHECK_CONFIG },
	{ "print-defaults", no_argument, NULL, OPT_PRINT_DEFAULTS },
	{ "list-sources", no_argument, NULL, OPT_LIST_SOURCES },
	{ "restore", no_argument, NULL, OPT_RESTORE },
	{ "helper", no_argument, NULL, OPT_HELPER },
	{ "user", required_argument, NULL, OPT_USER },
	{ "has-tiers", no_argument, NULL, OPT_HAS_TIERS },
	{ "first-minute", no_argument, NULL, OPT_FIRST_MINUTE },
	{ "for", required_argument, NULL, OPT_FOR },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "run-dir", required_argument, NULL, OPT_RUN_DIR },
	{ "simulate", required_argument, NULL, OPT_SIMULATE },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

static void print_help(void)
{
	puts("Usage: pghotd [OPTION]...\n"
	     "\n"
	     "Find the hot pages on slow memory nodes and move them to fast ones.\n"
	     "Started by systemctl start pghotd, looked at with pghotctl status.\n"
	     "\n"
	     "  -c, --config FILE    configuration (default: " PGHOTD_CONF ")\n"
	     "      --foreground     log to stderr, not to the journal\n"
	     "      --mode MODE      observe or promote, whatever the file says\n"
	     "      --set KEY=VALUE  set an option, whatever the file says\n"
	     "      --for SECONDS    end after that long\n"
	     "      --user NAME      as root: run as that user, with a helper process for\n"
	     "                       the few things that only root may do\n"
	     "      --first-minute   observe for a minute (or --for), change nothing,\n"
	     "                       then report what was found and what to do\n"
	     "\n"
	     "      --check-config   read the configuration, say what is wrong, end\n"
	     "      --print-defaults print the default configuration, commented\n"
	     "      --list-sources   say which sources can work here, and what is missing\n"
	     "      --has-tiers      end with 0 if this machine has a slow memory tier, else 1\n"
	     "      --restore        put back kernel settings that a killed pghotd left\n"
	     "      --helper         be the helper process, at a socket; started by systemd\n"
	     "\n"
	     "      --simulate SCENARIO\n"
	     "                       run the daemon's own code on a model of a machine, see\n"
	     "                       pghot-scenario(5); --set also sets the scenario's keys\n"
	     "      --policy NAME    with --simulate: promote by this policy\n"
	     "      --json           with --simulate: the result as JSON\n"
	     "      --plot FILE.svg  with --simulate: draw what happened\n"
	     "\n"
	     "      --root DIR       read DIR/sys and DIR/proc in place of /sys and /proc\n"
	     "      --run-dir DIR    for the control socket and what must be put back\n"
	     "                       (default: " PGHOTD_RUN_DIR ")\n"
	     "  -h, --help           show this and end\n"
	     "      --version        show the version and what was left out of it, and end\n"
	     "\n"
	     "Exit status: 0 done, 1 failed, 64 usage, 69 can't work on this machine,\n"
	     "77 no permission, 78 configuration.");
}

/* One line: what is wrong, and with which word. */
/* A full disk or a closed pipe is no success. */
static int written(int status)
{
	bool flushed = fflush(stdout) == 0;

	if (flushed && !ferror(stdout))
		return status;
	/* Who flushed in between knows why. */
	fprintf(stderr, "pghotd: cannot write the answer: %s\n", flushed ? "a part of it is lost" : strerror(errno));
	return status == EXIT_OK ? EXIT_FAILED : status;
}

static int usage_error(const char *wrong, const char *word)
{
	fprintf(stderr, "pghotd: %s: %s; try pghotd --help\n", wrong, word);
	return -EINVAL;
}

static int add_override(struct daemon_options *options, const char *key, const char *value)
{
	if (options->n_overrides == DAEMON_OVERRIDES_MAX)
		return usage_error("too many settings", key);
	options->overrides[options->n_overrides].key = key;
	options->overrides[options->n_overrides].value = value;
	options->n_overrides++;
	return 0;
}

static int parse_set(struct daemon_options *options, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return usage_error("--set wants KEY=VALUE", text);
	*equals = '\0';
	return add_override(options, text, equals + 1);
}

static int set_run_dir(struct daemon_options *options, const char *dir)
{
	static char paths[4][PATH_MAX];
	static const char *const names[4] = { "/bus", "/saved", "-helper/socket", "-helper/saved" };

	for (size_t i = 0; i < 4; i++)
		if (dir[0] != '/' || snprintf(paths[i], PATH_MAX, "%s%s", dir, names[i]) >= PATH_MAX)
			return usage_error("--run-dir wants an absolute path", dir);
	options->socket_path = paths[0];
	options->saved_path = paths[1];
	options->helper_path = paths[2];
	options->helper_saved_path = paths[3];
	return 0;
}

static int parse_args(int argc, char **argv, struct daemon_options *options, struct simulate_options *simulate,
		      enum action *action, bool *foreground)
{
	uint64_t seconds;
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:c:h", arg_options, NULL)) != -1) {
		switch (c) {
		case 'c':
			options->config_path = optarg;
			options->config_named = true;
			break;
		case OPT_FOREGROUND:
			*foreground = true;
			break;
		case OPT_MODE:
			r = add_override(options, "mode", optarg);
			break;
		case OPT_SET:
			r = parse_set(options, optarg);
			break;
		case OPT_FOR:
			if (parse_u64(optarg, 1, 86400ULL * 365, &seconds) < 0)
				r = usage_error("--for wants seconds", optarg);
			else
				options->run_for_ns = seconds * NSEC_PER_SEC;
			break;
		case OPT_ROOT:
			options->root_path = optarg;
			break;
		case OPT_RUN_DIR:
			r = set_run_dir(options, optarg);
			break;
		case OPT_CHECK_CONFIG:
			*action = ACTION_CHECK_CONFIG;
			break;
		case OPT_PRINT_DEFAULTS:
			*action = ACTION_PRINT_DEFAULTS;
			break;
		case OPT_LIST_SOURCES:
			*action = ACTION_LIST_SOURCES;
			break;
		case OPT_RESTORE:
			*action = ACTION_RESTORE;
			break;
		case OPT_HELPER:
			*action = ACTION_HELPER;
			break;
		case OPT_USER:
			options->user = optarg;
			break;
		case OPT_HAS_TIERS:
			*action = ACTION_HAS_TIERS;
			break;
		case OPT_FIRST_MINUTE:
			*action = ACTION_FIRST_MINUTE;
			break;
		case OPT_SIMULATE:
			*action = ACTION_SIMULATE;
			simulate->scenario = optarg;
			break;
		case OPT_POLICY:
			simulate->policy = optarg;
			break;
		case OPT_JSON:
			simulate->json = true;
			break;
		case OPT_PLOT:
			simulate->plot_path = optarg;
			break;
		case 'h':
			print_help();
			exit(written(EXIT_OK));
		case OPT_VERSION:
			printf("pghotd %s\nleft out of this build: %s\n", PGHOTD_VERSION, PGHOTD_LACKS);
			exit(written(EXIT_OK));
		case ':':
			r = usage_error("a value is missing", argv[optind - 1]);
			break;
		default:
			r = usage_error("no such option", argv[optind - 1]);
		}
	}
	if (r == 0 && optind < argc)
		r = usage_error("unexpected argument", argv[optind]);
	if (r == 0 && *action != ACTION_SIMULATE && (simulate->policy || simulate->json || simulate->plot_path))
		r = usage_error("this goes with --simulate only", simulate->policy ? "--policy"
								  : simulate->json ? "--json"
										   : "--plot");
	if (r == 0 && options->user && *action != ACTION_RUN && *action != ACTION_HELPER)
		r = usage_error("this goes with a start only", "--user");
	if (r == 0 && *action == ACTION_SIMULATE && options->config_named)
		r = usage_error("a scenario has its own settings, and --set sets one, so this would do nothing",
				"--config");
	return r;
}

static int note_cpu(void *ctx, int cpu)
{
	const struct source_cpus *cpus = ctx;

	if (!source_cpus_wants(cpus, cpu))
		printf("note: sampling.cpus: this machine has no CPU %d\n", cpu);
	return !source_cpus_wants(cpus, cpu); /* one will do */
}

/* What is fine by itself, but isn't there: it may come, or be another machine's. */
static void print_notes(const struct fsroot *root, const struct config *config, const struct topology *topology)
{
	static struct source_cpus cpus;
	int r = source_cpus_read(root, config->sampling_cpus, &cpus);

	if (topology && config->target_nid >= 0 && !topology_node(topology, (int)config->target_nid))
		printf("note: target_nid: this machine has no node %lld\n", (long long)config->target_nid);
	if (r == -ENODEV)
		printf("note: sampling.cpus: \"%s\" leaves no CPU that is online here\n", config->sampling_cpus);
	else if (r == 0 && strcmp(config->sampling_cpus, "all") != 0)
		(void)idlist_for_each(config->sampling_cpus, SOURCE_CPUS_MAX - 1, note_cpu, &cpus);
	errno = 0;
	if (!getgrnam(config->control_group))
		printf("note: control.group: there is no group \"%s\" here, so root alone may use the control socket\n",
		       config->control_group);
}

static int check_config(const struct daemon_options *options)
{
	char error[CONFIG_ERROR_MAX] = "";
	struct config config;
	struct topology *topology = NULL;
	struct fsroot root;
	int r = daemon_load_config(options, &config, NULL, error);

	if (r < 0) {
		fprintf(stderr, "pghotd: %s\n", error);
		return daemon_config_exit(r);
	}
	r = fsroot_open(&root, options->root_path);
	if (r == 0) {
		/* As lenient as a start is: a node that isn't there yet is a note. */
		r = daemon_read_topology(&root, &config, true, &topology, error, sizeof(error));
		if (r == 0 && topology->advice[0])
			printf("note: %s\n", topology->advice);
		if (r != -EINVAL)
			print_notes(&root, &config, topology);
		topology_unref(topology);
		fsroot_close(&root);
	}
	if (r == -EINVAL) {
		fprintf(stderr, "pghotd: %s: fine by itself, but not for this machine: %s\n", options->config_path,
			error);
		return EXIT_BAD_CONFIG;
	}
	if (access(options->config_path, F_OK) < 0)
		printf("%s: there is no such file, so the defaults hold\n", options->config_path);
	else
		printf("%s: no mistake found\n", options->config_path);
	return EXIT_OK;
}

static int has_tiers(const struct daemon_options *options)
{
	char error[CONFIG_ERROR_MAX] = "";
	struct config config;
	struct topology *topology;
	struct fsroot root;
	bool tiered;
	int r;

	r = daemon_load_config(options, &config, NULL, error);
	if (r < 0) {
		fprintf(stderr, "pghotd: %s\n", error);
		return daemon_config_exit(r);
	}
	if (fsroot_open(&root, options->root_path) < 0 ||
	    daemon_read_topology(&root, &config, true, &topology, error, sizeof(error)) < 0) {
		fprintf(stderr, "pghotd: cannot read the machine's memory nodes%s%s\n", error[0] ? ": " : "", error);
		return EXIT_CANNOT_WORK;
	}
	tiered = !nodeset_is_empty(&topology->lower);
	if (topology->advice[0])
		printf("%s\n", topology->advice);
	topology_unref(topology);
	fsroot_close(&root);
	return tiered ? EXIT_OK : EXIT_FAILED;
}

/* Of "@key : value" in /proc/cpuinfo, the first one. */
static void cpuinfo_value(const char *text, const char *key, char *ret, size_t size)
{
	const char *line = text ? strstr(text, key) : NULL;

	line = line ? strchr(line, ':') : NULL;
	snprintf(ret, size, "%.*s", line ? (int)strcspn(line + 1 + strspn(line + 1, " "), "\n") : 0,
		 line ? line + 1 + strspn(line + 1, " ") : "");
}

/* What the sources' lines are to be read with. */
static void print_machine(const struct fsroot *root)
{
	_cleanup_free_ char *text = NULL;
	char model[80], release[64] = "?", paranoid[16] = "?", rate[16] = "?";

	(void)fsroot_read_alloc(root, &text, "proc/cpuinfo");
	cpuinfo_value(text, "model name", model, sizeof(model));
	(void)fsroot_read(root, release, sizeof(release), "proc/sys/kernel/osrelease");
	(void)fsroot_read(root, paranoid, sizeof(paranoid), "proc/sys/kernel/perf_event_paranoid");
	(void)fsroot_read(root, rate, sizeof(rate), "proc/sys/kernel/perf_event_max_sample_rate");
	printf("%-12s %s%s, Linux %s, kernel.perf_event_paranoid %s, perf_event_max_sample_rate %s\n", "machine",
	       model[0] ? model : "CPU not known", text && strstr(text, " hypervisor") ? ", a virtual machine" : "",
	       release, paranoid, rate);
	if (strtoul(rate, NULL, 10) > 0 && strtoul(rate, NULL, 10) < SAMPLE_RATE_DEFAULT)
		printf("%-12s the kernel's default rate is %u: it, or someone, has lowered it, and it stays so; sysctl "
		       "-w "
		       "kernel.perf_event_max_sample_rate=%u\n",
		       "", SAMPLE_RATE_DEFAULT, SAMPLE_RATE_DEFAULT);
}

static int print_source(const struct source_ops *ops, const struct source_env *env)
{
	char why[SOURCE_WHY_MAX] = "", detail[SOURCE_DETAIL_MAX] = "";
	int r = ops->probe(env, why);

	if (r == 0 && ops->describe)
		ops->describe(env, detail);
	printf("%-12s %s%s%s%s%s\n", ops->name, r == 0 ? "can work here" : "no", detail[0] ? ": " : "", detail,
	       why[0] ? (detail[0] ? "; " : ": ") : "", why);
	return r;
}

static int list_sources(const struct daemon_options *options)
{
	char error[CONFIG_ERROR_MAX] = "";
	bool elsewhere = strcmp(options->root_path, "/") != 0;
	struct config config;
	struct privops privops = { .ops = elsewhere ? &privops_elsewhere : &privops_direct,
				   .ctx = &privops,
				   .saved_path = options->saved_path };
	struct topology *topology = NULL;
	int works = 0, r;

	r = daemon_load_config(options, &config, NULL, error);
	if (r < 0) {
		fprintf(stderr, "pghotd: %s\n", error);
		return daemon_config_exit(r);
	}
	r = fsroot_open(&privops.root, options->root_path);
	if (r < 0) {
		fprintf(stderr, "pghotd: cannot open %s: %s\n", options->root_path, strerror(-r));
		return EXIT_FAILED;
	}
	(void)daemon_read_topology(&privops.root, &config, true, &topology, error, sizeof(error));
	print_machine(&privops.root);
	for (const struct source_ops *const *ops = source_table; *ops; ops++) {
		struct source_env env = {
			.privops = &privops, .root = &privops.root, .config = &config, .topology = topology
		};

		works += print_source(*ops, &env) == 0;
	}
	topology_unref(topology);
	fsroot_close(&privops.root);
	return works ? EXIT_OK : EXIT_CANNOT_WORK;
}

/* What is in one file. An exit status. */
static int restore_file(const struct daemon_options *options, const char *path)
{
	struct privops privops = { .ops = &privops_direct, .saved_path = path };
	struct privops_restored restored;
	int r = fsroot_open(&privops.root, options->root_path);

	if (r == 0)
		r = privops_restore(&privops, &restored);
	fsroot_close(&privops.root);
	if (r < 0) {
		log_error("cannot put back the settings saved in %s: %s", path, strerror(-r));
		return r == -EACCES || r == -EPERM ? EXIT_NO_PERMISSION : EXIT_FAILED;
	}
	return restored.failed ? EXIT_FAILED : EXIT_OK;
}

static int restore(const struct daemon_options *options)
{
	struct privops_restored restored;
	bool saved;
	int r, status;

	/*
	 * A daemon that runs puts its settings back itself; to do so under it would leave it without samples. systemd
	 * calls --restore also behind a start that failed because another daemon runs.
	 */
	if (bus_listen_is_taken(options->socket_path)) {
		log_info("a pghotd is running and puts back its settings when it ends: nothing done");
		return EXIT_OK;
	}
	/* The helper has a file of its own, which is for root alone. */
	if (geteuid() != 0 && strcmp(options->root_path, "/") == 0) {
		r = helper_restore(options->helper_path, &restored);
		if (r == 0)
			return restored.failed ? EXIT_FAILED : EXIT_OK;
		if (r != -ENOENT)
			log_warning("the helper at %s can't put back settings: %s", options->helper_path, strerror(-r));
	}
	saved = access(options->saved_path, F_OK) == 0 || access(options->helper_saved_path, F_OK) == 0;
	if (!saved)
		log_info("nothing to put back: there is no %s", options->saved_path);
	r = restore_file(options, options->saved_path);
	status = restore_file(options, options->helper_saved_path);
	return r == EXIT_OK ? status : r;
}

/* A kernel started to save a crash dump has little memory and one job; and an administrator may say no at boot. */
static bool kernel_says_no(void)
{
	_cleanup_free_ char *line = NULL;
	struct fsroot root;
	bool no = false;

	if (fsroot_open(&root, "/") < 0)
		return false;
	if (fsroot_read_alloc(&root, &line, "proc/cmdline") >= 0) {
		char *rest = line;

		for (const char *word; (word = strsep(&rest, " ")) && !no;)
			no = strcmp(word, "pghotd=off") == 0 || strncmp(word, "elfcorehdr=", 11) == 0;
	}
	fsroot_close(&root);
	return no;
}

int main(int argc, char **argv)
{
	struct daemon_options options = {
		.config_path = PGHOTD_CONF,
		.root_path = "/",
		.socket_path = PGHOTD_RUN_DIR "/bus",
		.saved_path = PGHOTD_RUN_DIR "/saved",
		.helper_path = PGHOTD_RUN_DIR "-helper/socket",
		.helper_saved_path = PGHOTD_RUN_DIR "-helper/saved",
	};
	struct simulate_options simulate = { 0 };
	enum action action = ACTION_RUN;
	bool foreground = false;
	int r;

	if (parse_args(argc, argv, &options, &simulate, &action, &foreground) < 0)
		return EXIT_BAD_USAGE;
	log_init(foreground || (action != ACTION_RUN && action != ACTION_HELPER) ? LOG_TARGET_STDERR : LOG_TARGET_AUTO,
		 LOG_INFO);
	switch (action) {
	case ACTION_CHECK_CONFIG:
		return written(check_config(&options));
	case ACTION_PRINT_DEFAULTS:
		return written(config_write_defaults("-") < 0 ? EXIT_FAILED : EXIT_OK);
	case ACTION_LIST_SOURCES:
		return written(list_sources(&options));
	case ACTION_RESTORE:
		return restore(&options);
	case ACTION_HELPER:
		return helper_run(&options);
	case ACTION_HAS_TIERS:
		return written(has_tiers(&options));
	case ACTION_FIRST_MINUTE:
		options.socket_path = NULL;
		options.observe_only = true;
		if (!options.run_for_ns)
			options.run_for_ns = FIRST_MINUTE_SECONDS * NSEC_PER_SEC;
		return written(first_minute_run(&options));
	case ACTION_SIMULATE:
		return simulate_run(&simulate, &options);
	case ACTION_RUN:
		break;
	}
	if (kernel_says_no()) {
		log_notice("not started: the kernel command line has pghotd=off or says that this kernel saves a crash "
			   "dump");
		return EXIT_OK;
	}
	/* One on a recorded machine stays off the bus of the real one, unless it is told of another. */
	options.system_bus = strcmp(options.root_path, "/") == 0 || getenv("DBUS_SYSTEM_BUS_ADDRESS");
	r = helper_set_up(&options);
	return r ? r : daemon_run(&options);
}
