// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Probes: small datagrams from lane to lane, by the same packets, ports and routes
 * as the data. They tell what a carrier cannot: whether anything comes through.
 *
 * Each lane has a UD QP, whose number and Q_Key its peers know from the lane table.
 * What it receives is a probe, which is answered to the sender, or such an answer.
 *
 *  - A path that QPs use is probed each probe-interval, from both ends. As with BFD
 *    (RFC 5880) it is dead for an end that hears nothing at all on it, be it slowly:
 *    no probe, no answer, no message or acknowledgment of a QP, in probe-lost
 *    intervals in a row in which the peer was heard on its session. To leave the path
 *    to a host that is silent altogether would gain nothing. QPs leave a dead path, as
 *    for any other failure, and no QP takes it until a probe is answered again.
 *  - Both ends must come to the same view, or the one would send QPs where the other
 *    does not go. An end that hears nothing says so in its probes, by which the path is
 *    dead for the other end as well; and both go on probing when the QPs have left. It is
 *    revived for an end by an answer to what that asked since: both directions are well.
 *  - A lane whose port became active carries QPs only after a peer has answered a
 *    probe over it. Without a peer there is nobody to ask, and the port has the word.
 *
 * What is not answered is probed again for as long as the peer has that lane, after
 * pauses that grow to 5 s.
 *
 * Each path has a work item of its own, since finding the peer's MAC address may take
 * a second. Completions come in a work item of the core. Paths are freed by the lane's
 * tick, when nobody has used them for a minute, or with the lane; QPs hold them by
 * their count of users.
 */
#include "probe_qp.h"
#include "session.h"
#include "trace.h"

#define AGG_PROBE_PAUSE_MS	50	/* doubled for each attempt */
#define AGG_PROBE_PAUSE_MAX_MS	5000
#define AGG_PROBE_PATHS_MAX	1024	/* of a lane */
#define AGG_PROBE_TARGETS	16	/* lanes that are asked whether we are back */
#define AGG_PROBE_LINGER	(10 * HZ)
#define AGG_PROBE_IDLE		(60 * HZ)

static void agg_probe_path_work(struct work_struct *work);

/*
 * Paths
 */

static bool agg_probe_on(struct agg_lane *lane)
{
	return lane->probe.qp && READ_ONCE(lane->dev->params.probe_interval_ms);
}

static struct agg_probe_path *agg_probe_find(struct agg_probe *p, const union ib_gid *gid,
					     const union ib_gid *peer_gid)
{
	struct agg_probe_path *path;

	lockdep_assert_held(&p->lock);
	list_for_each_entry(path, &p->paths, node)
		if (!memcmp(&path->peer_gid, peer_gid, sizeof(*peer_gid)) &&
		    !memcmp(&path->gid, gid, sizeof(*gid)))
			return path;
	return NULL;
}

/* Something was heard. */
static void agg_probe_reset(struct agg_probe_path *path)
{
	lockdep_assert_held(&path->lane->probe.lock);

	path->lost = 0;
	path->missed = 0;
}

/* What was learned of a path is forgotten if another QP is at its end now. */
static void agg_probe_set_end(struct agg_probe *p, struct agg_probe_path *path, u32 qpn, u32 qkey)
{
	lockdep_assert_held(&p->lock);

	if (path->qpn == qpn && path->qkey == qkey)
		return;
	path->qpn = qpn;
	path->qkey = qkey;
	agg_probe_reset(path);
	p->nr_dead -= path->dead;
	path->dead = false;
	path->deaf = false;
}

/* The path, made if there is none; NULL: no room. */
static struct agg_probe_path *agg_probe_get(struct agg_lane *lane, const union ib_gid *gid,
					    const union ib_gid *peer_gid, u32 qpn, u32 qkey)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;

	lockdep_assert_held(&p->lock);

	if (p->stopping)
		return NULL;
	path = agg_probe_find(p, gid, peer_gid);
	if (!path) {
		if (p->nr_paths >= AGG_PROBE_PATHS_MAX)
			return NULL;
		path = kzalloc(sizeof(*path), GFP_ATOMIC);
		if (!path)
			return NULL;
		path->lane = lane;
		path->gid = *gid;
		path->peer_gid = *peer_gid;
		path->due = jiffies;
		INIT_DELAYED_WORK(&path->work, agg_probe_path_work);
		list_add_tail(&path->node, &p->paths);
		/* The first one; the tick finds the others. */
		if (!p->nr_paths++)
			queue_delayed_work(agg_wq, &p->tick, AGG_PROBE_IDLE);
	}
	agg_probe_set_end(p, path, qpn, qkey);
	path->used = jiffies;
	return path;
}

static void agg_probe_queue(struct agg_probe_path *path, unsigned long delay)
{
	lockdep_assert_held(&path->lane->probe.lock);

	/* Under the lock: agg_probe_stop() sees it queued, or it is not. */
	if (!path->lane->probe.stopping)
		mod_delayed_work(agg_wq, &path->work, delay);
}

/**
 * agg_probe_use() - a QP is on a path from now on
 * @lane: its lane
 * @gid: address of the lane
 * @peer_gid: address of the peer's lane
 * @qpn: where the peer's lane hears probes; 0 = nowhere
 * @qkey: likewise
 *
 * Context: process. Return: the path, to be given to agg_probe_unuse(), or NULL: it
 * is not probed.
 */
struct agg_probe_path *agg_probe_use(struct agg_lane *lane, const union ib_gid *gid,
				     const union ib_gid *peer_gid, u32 qpn, u32 qkey)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;

	/* A lane cannot fail to reach itself. */
	if (!p->qp || !qpn || !memcmp(gid, peer_gid, sizeof(*gid)))
		return NULL;
	spin_lock_irq(&p->lock);
	path = agg_probe_get(lane, gid, peer_gid, qpn, qkey);
	if (path && !path->users++) {
		agg_probe_reset(path);
		path->due = jiffies;
		WRITE_ONCE(path->alive, jiffies);
		if (agg_probe_on(lane) && !delayed_work_pending(&path->work))
			agg_probe_queue(path, 0);
	}
	spin_unlock_irq(&p->lock);
	return path;
}

/**
 * agg_probe_unuse() - a QP has left a path
 * @path: the path, or NULL
 *
 * Context: process.
 */
void agg_probe_unuse(struct agg_probe_path *path)
{
	struct agg_probe *p;

	if (!path)
		return;
	p = &path->lane->probe;
	spin_lock_irq(&p->lock);
	path->users--;
	path->used = jiffies;
	spin_unlock_irq(&p->lock);
}

/**
 * agg_probe_path_dead() - is it known that nothing comes through?
 * @lane: our lane
 * @gid: its address
 * @peer_gid: that of the peer's lane
 * @qpn: where the peer's lane hears probes now; 0 = not known here
 *
 * Context: process.
 */
bool agg_probe_path_dead(struct agg_lane *lane, const union ib_gid *gid,
			 const union ib_gid *peer_gid, u32 qpn)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;
	bool dead = false;

	if (!READ_ONCE(p->nr_dead) || !agg_probe_on(lane))
		return false;
	spin_lock_irq(&p->lock);
	path = agg_probe_find(p, gid, peer_gid);
	if (path)
		dead = path->dead && (!qpn || qpn == path->qpn);
	spin_unlock_irq(&p->lock);
	return dead;
}

static void agg_probe_tell(struct agg_probe_path *path, bool dead)
{
	struct agg_lane *lane = path->lane;

	trace_agg_path(lane, &path->gid, &path->peer_gid, dead);
	if (dead)
		pr_warn_ratelimited("rdma_agg: %s: lane %s/%u: nothing comes through to %pI6c\n",
				    dev_name(&lane->dev->ibdev.dev), lane->ibdev_name, lane->port,
				    path->peer_gid.raw);
	else
		pr_info_ratelimited("rdma_agg: %s: lane %s/%u: %pI6c answers again\n",
				    dev_name(&lane->dev->ibdev.dev), lane->ibdev_name, lane->port,
				    path->peer_gid.raw);
	agg_nl_lane_event(lane, lane->state, lane->state);
}

static void agg_probe_fail_qps(struct agg_probe_path *path)
{
	struct agg_lane *lane = path->lane;
	struct agg_lqp *lqp;

	/* It is dead for those who look; then for those whose path it is. */
	smp_mb();
	spin_lock_irq(&lane->qps_lock);
	list_for_each_entry(lqp, &lane->qps, node)
		if (READ_ONCE(lqp->path) == path)
			agg_qp_path_failed(lqp, AGG_CAUSE_PROBE);
	spin_unlock_irq(&lane->qps_lock);
}

/*
 * Sending
 */

/* The address handle, made anew while nothing comes through: the MAC may have changed. */
static void agg_probe_resolve(struct agg_probe_path *path)
{
	struct agg_lane *lane = path->lane;
	struct rdma_ah_attr av = {};
	struct ib_ah *ah;

	if (path->ah && READ_ONCE(path->lost) < 2 && !READ_ONCE(path->dead))
		return;
	if (agg_lane_av(lane, &path->gid, &path->peer_gid, &av))
		return;
	/* Sends that are queued may still need the one there is. */
	if (path->ah && !memcmp(&av, &path->av, sizeof(av)))
		return;
	ah = rdma_create_ah(lane->pd, &av, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(ah))
		return;
	if (path->ah)
		rdma_destroy_ah(path->ah, RDMA_DESTROY_AH_SLEEPABLE);
	path->ah = ah;
	path->av = av;
}

/* What the session says of the peer's lane. Returns whether there is such a lane. */
static bool agg_probe_refresh(struct agg_probe_path *path, unsigned long *heard)
{
	struct agg_probe *p = &path->lane->probe;
	struct agg_wire_lane theirs;

	if (!agg_session_find_lane(path->lane->dev, path->peer_gid.raw, &theirs, heard))
		return false;
	spin_lock_irq(&p->lock);
	agg_probe_set_end(p, path, theirs.probe_qpn, theirs.probe_qkey);
	spin_unlock_irq(&p->lock);
	return theirs.probe_qpn;
}

/*
 * Does it become dead? An interval counts if the peer was heard in it: when one that
 * was silent altogether is heard again, what was lost until then says nothing.
 */
static bool agg_probe_judge(struct agg_probe_path *path, unsigned long heard)
{
	const struct agg_params *params = &path->lane->dev->params;
	unsigned int interval = READ_ONCE(params->probe_interval_ms);
	unsigned int most = READ_ONCE(params->probe_lost);

	lockdep_assert_held(&path->lane->probe.lock);

	if (path->dead || !path->lost)
		return false;
	if (!time_before(READ_ONCE(path->alive), path->asked)) {
		agg_probe_reset(path);
		return false;
	}
	if (time_after(heard, path->asked))
		path->missed++;
	/* The time as well: we may have been late with the probes. */
	return path->missed >= most &&
	       time_after_eq(jiffies, path->lost_since + msecs_to_jiffies(interval * most));
}

/* @deaf: by what we hear ourselves; or the peer says so of its end. */
static void agg_probe_set_dead(struct agg_probe_path *path, bool deaf)
{
	lockdep_assert_held(&path->lane->probe.lock);

	WRITE_ONCE(path->dead, true);
	path->deaf = deaf;
	path->pause = AGG_PROBE_PAUSE_MS;
	path->lane->probe.nr_dead++;
}

static void agg_probe_died(struct agg_probe_path *path)
{
	agg_count(path->lane->dev, PATH_LOST);
	agg_probe_tell(path, true);
	agg_probe_fail_qps(path);
}

static void agg_probe_ask(struct agg_probe_path *path)
{
	lockdep_assert_held(&path->lane->probe.lock);

	path->ask = false;
	path->asked = jiffies;
	path->seq++;
	agg_probe_send(path, AGG_PROBE_ASK, cpu_to_be64(path->lane->dev->instance),
		       cpu_to_be64(path->seq));
	if (!path->lost++)
		path->lost_since = jiffies;
}

/* The path's work item: answer, judge, ask. */
static void agg_probe_path_work(struct work_struct *work)
{
	struct agg_probe_path *path = container_of(to_delayed_work(work), struct agg_probe_path,
						   work);
	struct agg_lane *lane = path->lane;
	enum agg_lane_state state = READ_ONCE(lane->state);
	unsigned int interval = READ_ONCE(lane->dev->params.probe_interval_ms);
	struct agg_probe *p = &lane->probe;
	bool wanted, died = false, known = true;
	unsigned long heard = 0;

	agg_probe_resolve(path);
	if (READ_ONCE(path->lost))
		known = agg_probe_refresh(path, &heard);

	spin_lock_irq(&p->lock);
	if (p->stopping)
		goto out;
	while (path->nr_echoes) {
		path->nr_echoes--;
		agg_probe_send(path, AGG_PROBE_ANSWER, path->echo[path->nr_echoes].instance,
			       path->echo[path->nr_echoes].seq);
	}

	/* A lane that is not up asks by its tick. */
	wanted = interval && agg_lane_usable(state) &&
		 (path->users || path->dead || time_before(jiffies, path->used + AGG_PROBE_LINGER));
	/* The peer has that lane no more. */
	wanted = wanted && (known || path->users);
	if (!interval || state == AGG_LANE_DOWN)
		agg_probe_reset(path);
	if (!interval || (!known && !path->users)) {
		p->nr_dead -= path->dead;
		path->dead = false;
		path->deaf = false;
	}
	if (!path->ask && !(wanted && time_after_eq(jiffies, path->due)))
		goto again;

	if (wanted && known && agg_probe_judge(path, heard)) {
		died = true;
		agg_probe_set_dead(path, true);
	}
	agg_probe_ask(path);
	path->due = jiffies + msecs_to_jiffies(path->dead ? path->pause : interval);
	if (path->dead)
		path->pause = min_t(unsigned int, path->pause * 2, AGG_PROBE_PAUSE_MAX_MS);
again:
	if (wanted)
		agg_probe_queue(path, time_after(path->due, jiffies) ? path->due - jiffies : 0);
out:
	spin_unlock_irq(&p->lock);

	if (died)
		agg_probe_died(path);
}

/*
 * Receiving
 */

static bool agg_probe_is_ours(struct agg_lane *lane, const u8 *gid)
{
	union ib_gid own[AGG_LANE_GIDS];
	unsigned int n = agg_lane_gids(lane, own);

	while (n--)
		if (!memcmp(own[n].raw, gid, sizeof(own[n].raw)))
			return true;
	return false;
}

/**
 * agg_probe_asked() - a peer's probe has come in
 * @lane: where
 * @msg: what a stranger may have sent, but for magic and version
 *
 * Context: work item of the CQ.
 */
void agg_probe_asked(struct agg_lane *lane, const struct agg_probe_msg *msg)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;
	union ib_gid gid, peer_gid;
	u32 qpn = be32_to_cpu(msg->qpn), qkey = be32_to_cpu(msg->qkey);
	bool died = false;

	if (!qpn || !agg_probe_is_ours(lane, msg->to))
		return;
	memcpy(gid.raw, msg->to, sizeof(gid.raw));
	memcpy(peer_gid.raw, msg->from, sizeof(peer_gid.raw));

	spin_lock_irq(&p->lock);
	path = agg_probe_get(lane, &gid, &peer_gid, qpn, qkey);
	if (!path)
		goto out;
	if (path->nr_echoes < AGG_PROBE_ECHOES) {
		path->echo[path->nr_echoes].instance = msg->instance;
		path->echo[path->nr_echoes].seq = msg->seq;
		path->nr_echoes++;
	}
	if (path->dead) {
		/* The one direction is well; an answer would tell of both. */
		path->deaf = false;
		path->ask = agg_probe_on(lane) &&
			    time_after(jiffies,
				       path->asked + msecs_to_jiffies(AGG_PROBE_PAUSE_MS));
	} else if (agg_probe_on(lane) && agg_lane_usable(READ_ONCE(lane->state))) {
		died = msg->flags & AGG_PROBE_F_DEAF;
		if (died)
			agg_probe_set_dead(path, false);
		else
			agg_probe_reset(path);
	}
	agg_probe_queue(path, 0);
out:
	spin_unlock_irq(&p->lock);

	/* It stays: agg_probe_stop() waits for us, and the tick sees it used. */
	if (died)
		agg_probe_died(path);
}

/**
 * agg_probe_answered() - an answer has come in, to one of ours or not
 * @lane: where
 * @msg: as for agg_probe_asked()
 *
 * Context: work item of the CQ.
 */
void agg_probe_answered(struct agg_lane *lane, const struct agg_probe_msg *msg)
{
	struct agg_probe *p = &lane->probe;
	bool up = false, revived = false;
	struct agg_probe_path *path;
	union ib_gid gid, peer_gid;

	if (msg->instance != cpu_to_be64(lane->dev->instance))
		return;
	memcpy(gid.raw, msg->to, sizeof(gid.raw));
	memcpy(peer_gid.raw, msg->from, sizeof(peer_gid.raw));

	spin_lock_irq(&p->lock);
	path = p->stopping ? NULL : agg_probe_find(p, &gid, &peer_gid);
	/* One that is late shows life as well; but it was asked since the port is there. */
	if (path && path->seq - be64_to_cpu(msg->seq) < path->lost) {
		/* The peer heard us, and we hear it. */
		revived = path->dead;
		agg_probe_reset(path);
		path->dead = false;
		path->deaf = false;
		p->nr_dead -= revived;
		if (revived) {
			path->due = jiffies;
			path->used = jiffies;
		}
		up = !p->answered;
		p->answered = true;
	}
	spin_unlock_irq(&p->lock);

	if (revived) {
		/* It stays: agg_probe_stop() waits for us, and the tick sees it used. */
		agg_probe_tell(path, false);
		agg_fo_kick_all(lane->dev);
	}
	if (up)
		agg_probe_kick(lane);
}

/*
 * Is a lane whose port is active good for anything?
 */

struct agg_probe_targets {
	unsigned int nr;
	struct {
		union ib_gid gid, peer_gid;
		u32 qpn, qkey;
	} to[AGG_PROBE_TARGETS];
	struct agg_wire_lanes lanes;	/* of one peer */
};

/* Lanes of a peer of the same rail; if we have no rail in common, all. */
static void agg_probe_targets_of(struct agg_lane *lane, const unsigned long *rails,
				 struct agg_probe_targets *t)
{
	const struct agg_wire_lane *l;
	bool common = false;
	unsigned int i;

	for (i = 0; i < t->lanes.nr; i++)
		common |= test_bit(t->lanes.lane[i].rail, rails);
	for (i = 0; i < t->lanes.nr && t->nr < AGG_PROBE_TARGETS; i++) {
		l = &t->lanes.lane[i];
		if ((common && l->rail != READ_ONCE(lane->rail)) || l->state == AGG_LANE_DOWN ||
		    !l->probe_qpn ||
		    !agg_path_gids(lane, l, &t->to[t->nr].gid, &t->to[t->nr].peer_gid))
			continue;
		t->to[t->nr].qpn = l->probe_qpn;
		t->to[t->nr].qkey = l->probe_qkey;
		t->nr++;
	}
}

/* Whom to ask; NULL: out of memory. */
static struct agg_probe_targets *agg_probe_targets(struct agg_lane *lane)
{
	struct agg_probe_targets *t = kzalloc(sizeof(*t), GFP_KERNEL);
	DECLARE_BITMAP(rails, U8_MAX + 1) = {};
	struct agg_dev *dev = lane->dev;
	unsigned long cursor = 0;
	struct agg_lane *other;
	unsigned int i;

	if (!t)
		return NULL;
	rcu_read_lock();
	for (i = 0; i < AGG_MAX_LANES; i++) {
		other = rcu_dereference(dev->lanes[i]);
		if (other)
			__set_bit(READ_ONCE(other->rail), rails);
	}
	rcu_read_unlock();
	while (!agg_session_peer_lanes(dev, &cursor, &t->lanes))
		if (t->lanes.instance != dev->instance)
			agg_probe_targets_of(lane, rails, t);
	return t;
}

static bool agg_probe_delayed(struct agg_lane *lane, unsigned long *end)
{
	*end = lane->probe.active_since +
	       msecs_to_jiffies(READ_ONCE(lane->dev->params.updelay_ms));
	return time_before(jiffies, *end);
}

/**
 * agg_probe_begin() - the port of a lane has become active
 * @lane: the lane, in state PROBE
 *
 * Context: process.
 */
void agg_probe_begin(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;

	spin_lock_irq(&p->lock);
	p->active_since = jiffies;
	p->answered = false;
	p->pause = AGG_PROBE_PAUSE_MS;
	/* Answers to what was asked before say nothing. */
	list_for_each_entry(path, &p->paths, node)
		agg_probe_reset(path);
	spin_unlock_irq(&p->lock);
}

/**
 * agg_probe_resume() - paths are to be probed again, or at another pace
 * @lane: the lane; it has become usable, or the parameters have changed
 *
 * Context: process.
 */
void agg_probe_resume(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;

	spin_lock_irq(&p->lock);
	list_for_each_entry(path, &p->paths, node) {
		agg_probe_reset(path);
		path->due = jiffies;
		if (path->users || path->dead)
			agg_probe_queue(path, 0);
	}
	spin_unlock_irq(&p->lock);
}

/**
 * agg_probe_passed() - may the lane become usable?
 * @lane: the lane, in state PROBE
 *
 * Context: process. Return: false: agg_probe_kick() has it looked at again.
 */
bool agg_probe_passed(struct agg_lane *lane)
{
	struct agg_probe_targets *t;
	unsigned long end;
	bool passed;

	if (agg_probe_delayed(lane, &end))
		return false;
	if (!agg_probe_on(lane) || READ_ONCE(lane->probe.answered))
		return true;
	t = agg_probe_targets(lane);
	passed = t && !t->nr;
	kfree(t);
	return passed;
}

/**
 * agg_probe_kick() - look at a lane, if it is in state PROBE
 * @lane: the lane
 *
 * Context: process.
 */
void agg_probe_kick(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;

	spin_lock_irq(&p->lock);
	p->pause = AGG_PROBE_PAUSE_MS;
	if (!p->stopping && READ_ONCE(lane->state) == AGG_LANE_PROBE)
		mod_delayed_work(agg_wq, &p->tick, 0);
	spin_unlock_irq(&p->lock);
}

static void agg_probe_each(struct agg_dev *dev, void (*call)(struct agg_lane *lane))
{
	struct agg_lane *lane;
	unsigned int id;

	for (id = 0; id < AGG_MAX_LANES; id++) {
		lane = agg_lane_get(dev, id);
		if (!lane)
			continue;
		call(lane);
		agg_lane_put(lane);
	}
}

/**
 * agg_probe_kick_all() - a peer or its lanes have changed: lanes that wait ask again
 * @dev: the device
 *
 * Context: process.
 */
void agg_probe_kick_all(struct agg_dev *dev)
{
	agg_probe_each(dev, agg_probe_kick);
}

/**
 * agg_probe_params_changed() - lanes wait, and paths are probed, at another pace
 * @dev: the device
 *
 * Context: process.
 */
void agg_probe_params_changed(struct agg_dev *dev)
{
	agg_probe_each(dev, agg_probe_resume);
	agg_probe_kick_all(dev);
	/* Without probes no path is dead. */
	agg_fo_kick_all(dev);
}

/* Ask whoever may answer. Returns whether there is anybody. */
static bool agg_probe_ask_around(struct agg_lane *lane)
{
	struct agg_probe_targets *t = agg_probe_targets(lane);
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;
	unsigned int i;
	bool any;

	if (!t)
		return true;
	spin_lock_irq(&p->lock);
	for (i = 0; i < t->nr; i++) {
		path = agg_probe_get(lane, &t->to[i].gid, &t->to[i].peer_gid, t->to[i].qpn,
				     t->to[i].qkey);
		if (!path)
			continue;
		path->ask = true;
		agg_probe_queue(path, 0);
	}
	spin_unlock_irq(&p->lock);
	any = t->nr;
	kfree(t);
	return any;
}

/* Paths that nobody needs. Nobody finds them once they are off the list. */
static void agg_probe_reap(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path, *next;
	LIST_HEAD(idle);

	spin_lock_irq(&p->lock);
	list_for_each_entry_safe(path, next, &p->paths, node) {
		if (path->users || path->dead || delayed_work_pending(&path->work) ||
		    time_before(jiffies, path->used + AGG_PROBE_IDLE))
			continue;
		list_move(&path->node, &idle);
		p->nr_paths--;
	}
	spin_unlock_irq(&p->lock);

	list_for_each_entry_safe(path, next, &idle, node) {
		/* One that runs may queue itself once more. */
		cancel_delayed_work_sync(&path->work);
		if (path->ah)
			rdma_destroy_ah(path->ah, RDMA_DESTROY_AH_SLEEPABLE);
		kfree(path);
	}
}

static void agg_probe_tick(struct work_struct *work)
{
	struct agg_lane *lane = container_of(to_delayed_work(work), struct agg_lane, probe.tick);
	struct agg_probe *p = &lane->probe;
	unsigned long again, end;

	agg_probe_reap(lane);
	again = agg_probe_mend(lane);
	if (!again && READ_ONCE(lane->state) == AGG_LANE_PROBE) {
		if (agg_probe_delayed(lane, &end)) {
			/* It may have come to its end meanwhile. */
			again = max_t(long, end - jiffies, 1);
		} else if (!agg_probe_on(lane) || READ_ONCE(p->answered) ||
			   !agg_probe_ask_around(lane)) {
			queue_work(agg_wq, &lane->event_work);
		} else {
			again = msecs_to_jiffies(p->pause);
			p->pause = min_t(unsigned int, p->pause * 2, AGG_PROBE_PAUSE_MAX_MS);
		}
	}
	spin_lock_irq(&p->lock);
	if (!again && p->nr_paths)
		again = AGG_PROBE_IDLE;
	/* A kick has queued it already, and sooner. */
	if (again && !p->stopping)
		queue_delayed_work(agg_wq, &p->tick, again);
	spin_unlock_irq(&p->lock);
}

/*
 * Lifetime
 */

/**
 * agg_probe_init() - a new lane
 * @lane: the lane
 *
 * Context: process.
 */
void agg_probe_init(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;

	spin_lock_init(&p->lock);
	INIT_LIST_HEAD(&p->paths);
	INIT_DELAYED_WORK(&p->tick, agg_probe_tick);
	/* Until agg_probe_start(). */
	p->stopping = true;
}

/**
 * agg_probe_start() - probes can be sent and are answered
 * @lane: a lane that joins, with its PD
 *
 * A lane that has no UD QPs is not probed; its port alone tells what it is worth.
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int agg_probe_start(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	int err;

	err = agg_probe_open_qp(lane);
	if (err == -EOPNOTSUPP)
		pr_info("rdma_agg: %s: lane %s/%u has no UD QPs: it is not probed\n",
			dev_name(&lane->dev->ibdev.dev), lane->ibdev_name, lane->port);
	else if (err)
		return err;
	spin_lock_irq(&p->lock);
	p->stopping = false;
	if (p->qp)
		agg_probe_post_recvs(lane);
	spin_unlock_irq(&p->lock);
	return 0;
}

/**
 * agg_probe_stop() - a lane leaves: nothing is sent, received or queued any more
 * @lane: the lane; its QPs may still hold paths
 *
 * Context: sleeps for work items that find an address.
 */
void agg_probe_stop(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path;

	spin_lock_irq(&p->lock);
	p->stopping = true;
	spin_unlock_irq(&p->lock);
	cancel_delayed_work_sync(&p->tick);
	/* Nothing joins or leaves the list now. */
	list_for_each_entry(path, &p->paths, node)
		cancel_delayed_work_sync(&path->work);
	if (!p->qp)
		return;
	agg_probe_close_qp(lane);
	list_for_each_entry(path, &p->paths, node) {
		if (path->ah)
			rdma_destroy_ah(path->ah, RDMA_DESTROY_AH_SLEEPABLE);
		path->ah = NULL;
	}
}

/**
 * agg_probe_free() - forget the paths of a lane
 * @lane: stopped; no QP is on it any more
 *
 * Context: process.
 */
void agg_probe_free(struct agg_lane *lane)
{
	struct agg_probe *p = &lane->probe;
	struct agg_probe_path *path, *next;
	LIST_HEAD(all);

	spin_lock_irq(&p->lock);
	list_splice_init(&p->paths, &all);
	p->nr_paths = 0;
	p->nr_dead = 0;
	spin_unlock_irq(&p->lock);
	list_for_each_entry_safe(path, next, &all, node) {
		WARN_ON_ONCE(path->users);
		kfree(path);
	}
}
