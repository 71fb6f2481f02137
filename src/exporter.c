/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pghotd-exporter: the metrics of pghotd for scrapers. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "build_config.h"
#include "bus.h"
#include "cleanup.h"
#include "exporter_http.h"
#include "log.h"
#include "parse.h"

#define BACKLOG 64

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_BAD_USAGE = 64,
};

enum {
	OPT_SOCKET = 256,
	OPT_LISTEN,
	OPT_PATIENCE,
	OPT_VERSION,
};

static const struct option arg_options[] = {
	{ "socket", required_argument, NULL, OPT_SOCKET },     { "listen", required_argument, NULL, OPT_LISTEN },
	{ "patience", required_argument, NULL, OPT_PATIENCE }, { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },         { 0 },
};

static void print_help(void)
{
	puts("Usage: pghotd-exporter [OPTION]...\n"
	     "\n"
	     "Serve the metrics of pghotd at /metrics, for Prometheus and others.\n"
	     "Started by systemctl enable --now pghotd-exporter.socket.\n"
	     "\n"
	     "      --listen ADDRESS:PORT\n"
	     "                       listen there, too: 127.0.0.1:10417, [::1]:10417;\n"
	     "                       may be repeated\n"
	     "      --socket PATH    control socket of pghotd\n"
	     "                       (default: " BUS_SOCKET_PATH ")\n"
	     "      --patience SECONDS\n"
	     "                       for a request and its answer, 1 to 60 (default: 10)\n"
	     "  -h, --help           show this and end\n"
	     "      --version        show the version and end\n"
	     "\n"
	     "Exit status: 0 done, 1 failed, 64 usage.");
}

static int usage_error(const char *wrong, const char *word)
{
	fprintf(stderr, "pghotd-exporter: %s: %s; try pghotd-exporter --help\n", wrong, word);
	return EXIT_BAD_USAGE;
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* "127.0.0.1:80" or "[::1]:80". The length of *@ret, 0 when it is neither. Names are not looked up. */
static socklen_t parse_address(const char *text, union address *ret)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	uint64_t port;
	size_t len = colon ? (size_t)(colon - text) : 0;

	memset(ret, 0, sizeof(*ret));
	if (!len || len >= sizeof(host) || parse_u64(colon + 1, 0, UINT16_MAX, &port) < 0)
		return 0;
	memcpy(host, text, len);
	host[len] = '\0';
	if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons((uint16_t)port);
		return sizeof(ret->v4);
	}
	if (host[0] != '[' || host[len - 1] != ']')
		return 0;
	host[len - 1] = '\0';
	if (inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) != 1)
		return 0;
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons((uint16_t)port);
	return sizeof(ret->v6);
}

/* A descriptor, or -errno. */
static int listen_at(union address *address, socklen_t len)
{
	_cleanup_close_ int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &address->any, len) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, &address->any, &(socklen_t){ sizeof(*address) }) < 0)
		return -errno;
	return take_fd(fd);
}

/* Serve at @text. An exit status, with why it isn't 0 said. */
static int add_address(struct exporter_http *http, const char *text)
{
	char host[INET6_ADDRSTRLEN] = "";
	union address address;
	socklen_t len = parse_address(text, &address);
	int fd, r;

	if (!len)
		return usage_error("--listen wants ADDRESS:PORT, both as numbers", text);
	fd = listen_at(&address, len);
	r = fd < 0 ? fd : exporter_http_listen(http, fd);
	if (r < 0) {
		log_error("exporter: cannot listen at %s: %s", text, strerror(-r));
		if (fd >= 0)
			close(fd);
		return EXIT_FAILED;
	}
	if (address.any.sa_family == AF_INET)
		log_info("exporter: listening at %s:%u", inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof(host)),
			 ntohs(address.v4.sin_port));
	else
		log_info("exporter: listening at [%s]:%u",
			 inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof(host)), ntohs(address.v6.sin6_port));
	return EXIT_OK;
}

/* The sockets that systemd has opened. How many, or an exit status as a negative number. */
static int add_passed(struct exporter_http *http)
{
	int n = sd_listen_fds(1), r;

	if (n < 0) {
		log_error("exporter: cannot use the sockets that systemd passed: %s", strerror(-n));
		return -EXIT_FAILED;
	}
	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
		r = sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0 ? exporter_http_listen(http, fd) : -EINVAL;
		if (r < 0) {
			log_error("exporter: cannot use socket %d of those that systemd passed (see "
				  "pghotd-exporter.socket): %s",
				  fd, r == -EINVAL ? "it is no listening stream socket" : strerror(-r));
			return -EXIT_FAILED;
		}
	}
	return n;
}

static int serve(struct exporter_http *http)
{
	_cleanup_close_ int stop_fd = -1;
	sigset_t set;
	int r = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
		stop_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (stop_fd < 0) {
		log_error("exporter: cannot take signals: %s", strerror(errno));
		return EXIT_FAILED;
	}
	(void)sd_notify(0, "READY=1");
	while (r == 0)
		r = exporter_http_step(http, stop_fd, -1);
	if (r < 0)
		log_error("exporter: cannot wait for clients: %s", strerror(-r));
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int run(const struct exporter_http_options *options, char *const *addresses, size_t n_addresses)
{
	struct exporter_http *http;
	int n, status = EXIT_OK;

	if (exporter_http_new(options, &http) < 0) {
		log_error("exporter: out of memory");
		return EXIT_FAILED;
	}
	n = add_passed(http);
	if (n < 0)
		status = -n;
	for (size_t i = 0; status == EXIT_OK && i < n_addresses; i++)
		status = add_address(http, addresses[i]);
	if (status == EXIT_OK && n == 0 && n_addresses == 0)
		status = usage_error("nowhere to listen",
				     "systemctl start pghotd-exporter.socket passes a socket, --listen opens one");
	if (status == EXIT_OK)
		status = serve(http);
	exporter_http_free(http);
	return status;
}

int main(int argc, char **argv)
{
	struct exporter_http_options options = {
		.socket_path = BUS_SOCKET_PATH,
		.ask_timeout_ms = EXPORTER_ASK_TIMEOUT_MS,
		.patience_ns = EXPORTER_PATIENCE_SECONDS * NSEC_PER_SEC,
		.fresh_ns = EXPORTER_FRESH_NS,
		.clock = &clock_monotonic,
	};
	char *addresses[EXPORTER_LISTEN_MAX];
	size_t n_addresses = 0;
	uint64_t seconds;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:h", arg_options, NULL)) != -1) {
		switch (c) {
		case OPT_SOCKET:
			options.socket_path = optarg;
			break;
		case OPT_LISTEN:
			if (n_addresses == EXPORTER_LISTEN_MAX)
				return usage_error("that is one address too many", optarg);
			addresses[n_addresses++] = optarg;
			break;
		case OPT_PATIENCE:
			if (parse_u64(optarg, 1, 60, &seconds) < 0)
				return usage_error("--patience wants seconds, 1 to 60", optarg);
			options.patience_ns = seconds * NSEC_PER_SEC;
			break;
		case 'h':
			print_help();
			return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
		case OPT_VERSION:
			printf("pghotd-exporter %s\n", PGHOTD_VERSION);
			return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
		case ':':
			return usage_error("a value is missing", argv[optind - 1]);
		default:
			return usage_error("no such option", argv[optind - 1]);
		}
	}
	if (optind < argc)
		return usage_error("unexpected argument", argv[optind]);
	/* A client that went away while it was written to. */
	signal(SIGPIPE, SIG_IGN);
	log_init(LOG_TARGET_AUTO, LOG_INFO);
	return run(&options, addresses, n_addresses);
}
