// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Run shell commands in the other guest.
 *
 *   rexec -l ADDRESS PORT            server
 *   rexec [-i] ADDRESS PORT CMD...   client; the arguments are joined by blanks
 *
 * Why not ssh: no keys to make, no package to install, a command costs a few
 * milliseconds under emulation, and when the client dies the server kills the
 * command's whole process group, so an aborted test leaves nothing running in
 * the other guest.  There is no authentication: it is for a wire that joins
 * two guests of one test run and nothing else.
 *
 * The client's exit status is the command's (128 + signal when it was killed),
 * or 255 when the connection could not be made or broke.
 *
 * On the wire: frames of a type byte, a 32-bit big-endian length, and data.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { F_CMD = 'c', F_IN = 'i', F_OUT = 'o', F_ERR = 'e', F_EXIT = 'x' };

#define MAX_FRAME	65536
#define CONNECT_SECONDS	120

static void die(const char *what)
{
	fprintf(stderr, "rexec: %s: %s\n", what, strerror(errno));
	exit(255);
}

/* Returns 0, or -1 when the other side is gone. */
static int write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= n;
	}
	return 0;
}

static int read_all(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= n;
	}
	return 0;
}

static int send_frame(int fd, char type, const void *data, uint32_t len)
{
	uint32_t be = htonl(len);
	char head[5] = { type };

	memcpy(head + 1, &be, 4);
	if (write_all(fd, head, sizeof(head)))
		return -1;
	return write_all(fd, data, len);
}

static int recv_frame(int fd, char *type, char *data, uint32_t *len)
{
	char head[5];
	uint32_t be;

	if (read_all(fd, head, sizeof(head)))
		return -1;
	*type = head[0];
	memcpy(&be, head + 1, 4);
	*len = ntohl(be);
	if (*len > MAX_FRAME)
		return -1;
	return read_all(fd, data, *len);
}

/* Pass on what can be read; returns 0 at end of file or a dead peer. */
static int relay(int from, int sock, char type)
{
	static char buf[MAX_FRAME];
	ssize_t n = read(from, buf, sizeof(buf));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n <= 0)
		return 0;
	return send_frame(sock, type, buf, n) == 0;
}

static volatile sig_atomic_t child_done;

static void on_child(int sig)
{
	(void)sig;
	child_done = 1;
}

/* One connection: one command. */
static void serve(int sock)
{
	static char cmd[MAX_FRAME + 1], data[MAX_FRAME];
	int in[2], out[2], err[2], status, code, stdin_open = 1;
	sigset_t block, normal;
	uint32_t len;
	char type;
	pid_t pid;

	if (recv_frame(sock, &type, cmd, &len) || type != F_CMD)
		exit(1);
	cmd[len] = 0;
	if (pipe(in) || pipe(out) || pipe(err))
		die("pipe");

	/* SIGCHLD is delivered only inside ppoll(), so none is missed. */
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	sigprocmask(SIG_BLOCK, &block, &normal);
	signal(SIGCHLD, on_child);

	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		sigprocmask(SIG_SETMASK, &normal, NULL);
		signal(SIGCHLD, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		setsid();
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		for (int fd = 3; fd < 32; fd++)
			close(fd);
		execl("/bin/bash", "bash", "-c", cmd, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);

	while (!child_done) {
		struct pollfd p[3] = {
			{ .fd = sock, .events = POLLIN },
			{ .fd = out[0], .events = POLLIN },
			{ .fd = err[0], .events = POLLIN },
		};

		if (ppoll(p, 3, NULL, &normal) < 0) {
			if (errno == EINTR)
				continue;
			die("ppoll");
		}
		if (p[1].revents && !relay(out[0], sock, F_OUT)) {
			close(out[0]);
			out[0] = -1;
		}
		if (p[2].revents && !relay(err[0], sock, F_ERR)) {
			close(err[0]);
			err[0] = -1;
		}
		if (!p[0].revents)
			continue;
		if (recv_frame(sock, &type, data, &len)) {
			/* The client is gone: so is its command. */
			kill(-pid, SIGKILL);
			exit(0);
		}
		if (type == F_IN && stdin_open) {
			if (!len || write_all(in[1], data, len)) {
				close(in[1]);
				stdin_open = 0;
			}
		}
	}

	/*
	 * Take what is still in the pipes, without waiting for their end: a
	 * process that the command left in the background may hold them open.
	 */
	for (int i = 0; i < 2; i++) {
		int fd = i ? err[0] : out[0];
		struct pollfd p = { .fd = fd, .events = POLLIN };

		while (fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLIN))
			if (!relay(fd, sock, i ? F_ERR : F_OUT))
				break;
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	code = htonl(code);
	send_frame(sock, F_EXIT, &code, sizeof(code));
	exit(0);
}

static void fill_addr(struct sockaddr_in *sa, const char *addr, const char *port)
{
	memset(sa, 0, sizeof(*sa));
	sa->sin_family = AF_INET;
	sa->sin_port = htons(atoi(port));
	if (inet_pton(AF_INET, addr, &sa->sin_addr) != 1) {
		errno = EINVAL;
		die(addr);
	}
}

static _Noreturn void server(const char *addr, const char *port)
{
	struct sockaddr_in sa;
	int one = 1, sock;

	fill_addr(&sa, addr, port);
	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		die("socket");
	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(sock, (struct sockaddr *)&sa, sizeof(sa)) || listen(sock, 64))
		die("listen");
	for (;;) {
		int fd = accept4(sock, NULL, NULL, SOCK_CLOEXEC);

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (!fork()) {
			close(sock);
			serve(fd);
		}
		close(fd);
	}
}

/* The other guest may still be booting, so refusals are tried again. */
static int connect_retry(const struct sockaddr_in *sa)
{
	struct timespec nap = { .tv_nsec = 100 * 1000 * 1000 };
	time_t end = time(NULL) + CONNECT_SECONDS;
	int one = 1, idle = 10, intvl = 5, cnt = 4;

	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			die("socket");
		if (!connect(fd, (struct sockaddr *)sa, sizeof(*sa))) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
			setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
			setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &intvl, sizeof(intvl));
			setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &cnt, sizeof(cnt));
			return fd;
		}
		close(fd);
		if (time(NULL) >= end)
			die("connect");
		nanosleep(&nap, NULL);
	}
}

static int client(const char *addr, const char *port, char **argv, int with_stdin)
{
	static char data[MAX_FRAME];
	struct sockaddr_in sa;
	uint32_t len = 0, code;
	char type;
	int sock;

	for (; *argv; argv++) {
		size_t n = strlen(*argv);

		if (len + n + 1 > sizeof(data)) {
			errno = E2BIG;
			die("command");
		}
		if (len)
			data[len++] = ' ';
		memcpy(data + len, *argv, n);
		len += n;
	}
	fill_addr(&sa, addr, port);
	sock = connect_retry(&sa);
	if (send_frame(sock, F_CMD, data, len))
		die("send");
	if (!with_stdin)
		send_frame(sock, F_IN, data, 0);

	for (;;) {
		struct pollfd p[2] = {
			{ .fd = sock, .events = POLLIN },
			{ .fd = with_stdin ? 0 : -1, .events = POLLIN },
		};

		if (poll(p, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			die("poll");
		}
		if (p[1].revents && !relay(0, sock, F_IN)) {
			send_frame(sock, F_IN, data, 0);
			with_stdin = 0;
		}
		if (!p[0].revents)
			continue;
		if (recv_frame(sock, &type, data, &len)) {
			errno = ECONNRESET;
			die("connection lost");
		}
		if (type == F_OUT)
			write_all(1, data, len);
		else if (type == F_ERR)
			write_all(2, data, len);
		else if (type == F_EXIT && len == sizeof(code)) {
			memcpy(&code, data, sizeof(code));
			return ntohl(code);
		}
	}
}

int main(int argc, char **argv)
{
	int with_stdin;

	/* A dead peer shows up as a failed write, not as a dead process. */
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && !strcmp(argv[1], "-l"))
		server(argv[2], argv[3]);
	with_stdin = argc > 1 && !strcmp(argv[1], "-i");
	argv += with_stdin;
	argc -= with_stdin;
	if (argc < 4) {
		fprintf(stderr, "usage: rexec -l ADDRESS PORT\n       rexec [-i] ADDRESS PORT COMMAND...\n");
		return 255;
	}
	return client(argv[1], argv[2], argv + 3, with_stdin);
}
