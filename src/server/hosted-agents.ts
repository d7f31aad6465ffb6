import { accessSync, constants, statSync } from 'node:fs'
import { basename, delimiter, join } from 'node:path'
import type { AgentCommand } from '../agent/hosted/agent-program.ts'
import { agentPresets } from '../agent-presets.ts'
import { routingOf } from '../agent-routing.ts'
import type { Config } from '../config.ts'
import { ModelFailure } from '../core/agent.ts'
import type { AgentList } from '../protocol/api/service.ts'
import { programPath } from './commands.ts'

/** The agents that conversations can choose, from the presets and the settings. */
export interface HostedAgents {
  list(): AgentList['items']
  /** How to start an agent; throws a ModelFailure that says what to do when it can't be. */
  command(name: string): AgentCommand
}

interface Known {
  title: string
  command: string
  args: readonly string[]
  environment: Record<string, string>
  mode: string | null
  install: string | null
  forksElsewhere: boolean
}

/** `gatewayUrl` is the address of this server's gateway, known once it listens. */
export function createHostedAgents(config: Config, gatewayUrl: () => string): HostedAgents {
  // Never a program from the project: starting an agent must not run the project's code.
  const path = programPath(config)
  const known = new Map<string, Known>()
  for (const [name, { variables, ...preset }] of Object.entries(agentPresets)) {
    known.set(name, { ...preset, mode: null, environment: chosen(config, variables) })
  }
  for (const [name, { command, args, env, variables, mode }] of Object.entries(config.agents)) {
    const environment = { ...chosen(config, variables ?? []), ...env }
    known.set(name, {
      title: name,
      command,
      args: args ?? [],
      environment,
      mode: mode ?? null,
      install: null,
      // Under another name it is still the same program.
      forksElsewhere: Object.values(agentPresets).some(
        (one) => one.forksElsewhere && one.command === basename(command),
      ),
    })
  }

  function routed(agent: Known, environment: Record<string, string>): AgentCommand['routing'] {
    if (!config.gateway) return null
    const { upstreams, through } = routingOf(agent.command, environment, config.gatewayUpstreams)
    return {
      upstreams,
      environment: (key) => through((name) => `${gatewayUrl()}/${key}/${name}`).environment,
    }
  }

  return {
    list: () =>
      [...known].map(([name, { title, command, install }]) => ({
        name,
        title,
        is_installed: findProgram(command, path) !== null,
        install,
      })),
    command(name) {
      const agent = known.get(name)
      if (!agent) {
        const names = [...known.keys()].join(', ')
        throw new ModelFailure('unknown_agent', `This server has no agent named ${name}; it has ${names}.`, {
          isRetryable: false,
        })
      }
      const program = findProgram(agent.command, path)
      if (program === null) {
        const how = agent.install === null ? '' : ` Install it on the server: ${agent.install}`
        const text = `The agent ${name} is not installed: no program ${agent.command} on the PATH.${how}`
        throw new ModelFailure('agent_not_installed', text, { isRetryable: false })
      }
      const environment = { ...config.commandEnvironment, ...agent.environment, PATH: path }
      return {
        name,
        argv: [program, ...agent.args],
        environment,
        mode: agent.mode,
        forksElsewhere: agent.forksElsewhere,
        routing: routed(agent, environment),
      }
    },
  }
}

function chosen({ agentVariables }: Config, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (agentVariables[name] ? [[name, agentVariables[name]]] : [])),
  )
}

function findProgram(command: string, path: string): string | null {
  const places = command.startsWith('/')
    ? [command]
    : path.split(delimiter).map((folder) => join(folder, command))
  return places.find(isProgram) ?? null
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}
