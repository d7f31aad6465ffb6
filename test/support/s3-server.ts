import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import type { S3Place } from '../../src/object-storage/s3.ts'
import { freePort } from './free-port.ts'

/** A real S3 server for the whole test run: Ceph's RADOS Gateway with one monitor and one in-memory store. */
export type S3Here = { endpoint: string } | { missing: string }

declare module 'vitest' {
  interface ProvidedContext {
    s3: S3Here
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const missing = noS3Here()
  if (missing !== null) {
    project.provide('s3', { missing })
    return async () => {}
  }
  const { endpoint, stop } = await startS3()
  project.provide('s3', { endpoint })
  return stop
}

const PROGRAMS = ['ceph', 'ceph-mon', 'ceph-osd', 'monmaptool', 'radosgw', 'radosgw-admin']

/** Why S3 is not available on this machine, or null if it is. */
function noS3Here(): string | null {
  const missing = PROGRAMS.filter((name) => spawnSync('which', [name]).status !== 0)
  return missing.length === 0
    ? null
    : `${missing.join(', ')} not installed (Debian: radosgw ceph-mon ceph-osd)`
}

const credentials = { accessKeyId: 'waymark', secretAccessKey: 'waymark-test-secret' }

export async function startS3(): Promise<{ endpoint: string; stop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'waymark-s3-'))
  const [monitor, gateway] = [await freePort(), await freePort()]
  const fsid = randomUUID()
  const conf = join(folder, 'ceph.conf')
  await writeFile(conf, settings(folder, fsid, monitor))
  for (const name of ['mon', 'osd', 'rgw', 'crash']) await mkdir(join(folder, name))
  const env = { PATH: process.env.PATH, HOME: folder, CEPH_CONF: conf }
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { env, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 })
  const processes: ChildProcess[] = []
  const start = (program: string, ...args: string[]) =>
    processes.push(spawn(program, ['-f', ...args], { env, cwd: folder, stdio: 'ignore' }))
  const stop = async () => {
    for (const one of processes.toReversed()) {
      if (one.exitCode !== null) continue
      const ended = new Promise((resolve) => one.once('exit', resolve))
      one.kill('SIGKILL')
      await ended
    }
    await rm(folder, { recursive: true, force: true })
  }
  try {
    run('monmaptool', '--create', '--addv', 'a', `[v2:127.0.0.1:${monitor}/0]`, '--fsid', fsid, 'monmap')
    run('ceph-mon', '--mkfs', '-i', 'a', '--monmap', 'monmap')
    start('ceph-mon', '-i', 'a')
    run('ceph', '--connect-timeout', '30', 'osd', 'create')
    run('ceph-osd', '-i', '0', '--mkfs')
    start('ceph-osd', '-i', '0')
    const keys = [`--access-key=${credentials.accessKeyId}`, `--secret-key=${credentials.secretAccessKey}`]
    run('radosgw-admin', 'user', 'create', '--uid=waymark', '--display-name=waymark', ...keys)
    const endpoint = `http://127.0.0.1:${gateway}`
    start(
      'radosgw',
      '-n',
      'client.admin',
      '--rgw-frontends',
      `beast endpoint=127.0.0.1:${gateway} tcp_nodelay=1`,
    )
    await answers(endpoint)
    return { endpoint, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Creates a new bucket. */
export async function newBucket(s3: S3Here): Promise<S3Place> {
  if ('missing' in s3) throw new Error(s3.missing)
  const { endpoint } = s3
  const bucket = `waymark-${randomUUID()}`
  const { CreateBucketCommand, S3Client } = await import('@aws-sdk/client-s3')
  const client = new S3Client({ endpoint, region: 'us-east-1', credentials, forcePathStyle: true })
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  return { bucket, prefix: 'waymark/', endpoint, region: 'us-east-1', credentials }
}

async function answers(endpoint: string): Promise<void> {
  for (const started = Date.now(); ; ) {
    if (
      await fetch(endpoint).then(
        () => true,
        () => false,
      )
    )
      return
    if (Date.now() - started > 60_000) throw new Error('the S3 server does not respond')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** One process each, no replication and no waits, so that it starts within a second. */
function settings(folder: string, fsid: string, monitor: number): string {
  return `[global]
fsid = ${fsid}
mon_host = v2:127.0.0.1:${monitor}/0
public_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
paxos_propose_interval = 0.01
paxos_min_wait = 0.01
mon_data_avail_warn = 1
mon_data_avail_crit = 1
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 10000
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 4294967296
rgw_rados_pool_pg_num_min = 1
run_dir = ${folder}
admin_socket = ${folder}/$name.asok
log_file = /dev/null
pid_file = ${folder}/$name.pid
crash_dir = ${folder}/crash
keyring = ${folder}/keyring
mon_data = ${folder}/mon
osd_data = ${folder}/osd
rgw_data = ${folder}/rgw
`
}
